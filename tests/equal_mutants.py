"""Mutants that give the same as the solution on all that the exercise states, and why.

exercise -> change, as `python -m tests.mutants` names it -> reason.
"""

SQUARED = "The difference is squared: its sign does not matter."
IN_FRONT = "The axes that are gone stand in front, where broadcasting puts them back."
SAME_TWO = "The same two axes change places."
EQUALLY_LONG = "Both are equally long."
ORDER = "A mean over two axes does not depend on their order."
TIED = "The head's own weight is thrown away: it is tied."
FIRST_WEIGHTS = "Given, and about first weights: a check loads its own."
NAN_IN_INT8 = "0 / 0 is NaN, and NaN in int8 is 0; a scale of 0 is finite."
EQUALLY_MANY = "There is a number for each piece."
HALF_AND_FLOAT = "The numbers are in float32, and what they meet becomes float32, without loss."
COUNT_CANCELS = "Scaled to length 1: what all numbers are multiplied by cancels out."
NOTHING_LEFT = "Where nothing is left, it is 0 / 1e-30 or 0: both are 0."

EQUAL: dict[str, dict[str, str]] = {
    "mean_squared_error": {
        "3:17 prediction.squeeze(-1) - target -> target - prediction.squeeze(-1)": SQUARED,
        "3:36 -1 -> 1": "The last of two axes.",
    },
    "cosine_similarities": {
        "3:37 -1 -> 1": "The last of two axes.",
        "3:65 1e-12 -> 2e-12": "Only what is all zeros is shorter than either.",
        "3:65 1e-12 -> 5e-13": "Only what is all zeros is shorter than either.",
        "4:32 -1 -> 1": "The last of two axes.",
        "4:60 1e-12 -> 2e-12": "Only what is all zeros is shorter than either.",
        "4:60 1e-12 -> 5e-13": "Only what is all zeros is shorter than either.",
        "5:39 (keys / key_lengths).T -> (keys / key_lengths).mT": "There are only two axes.",
    },
    "attention_scores": {
        "3:13 q -> k": "Queries and keys are equally long: both have d_head.",
    },
    "causal_mask": {
        "4:11 position[None, :] -> position": IN_FRONT,
    },
    "convert_mask": {
        "14:27 may_attend -> mask": "Only its shape is read.",
    },
    "merge_attention": {
        "3:10 torch.logaddexp(lse_a, lse_b) -> torch.logaddexp(lse_b, lse_a)": "It is symmetric.",
        "5:48 0.0 -> 1.0": "In an empty row exp(-inf - 1) is 0 as well.",
        "5:48 0.0 -> -1.0": "In an empty row exp(-inf + 1) is 0 as well.",
    },
    "leaks": {
        "4:19 x -> before": "There is an output for each token.",
        "6:33 x -> changed": "A copy of x has its shape.",
        "7:16 (attend(changed) - before).abs() > 1e-06"
        " -> (attend(changed) - before).abs() >= 1e-06": "No difference is exactly that.",
        "7:17 attend(changed) - before -> before - attend(changed)": "A distance has no sign.",
        "7:51 1e-06 -> 2e-06": "Leaks are stronger and rounding is weaker than either.",
        "7:51 1e-06 -> 5e-07": "Leaks are stronger and rounding is weaker than either.",
        "8:37 -1 -> 1": "The last of two axes.",
    },
    "attention_in_tiles": {
        "7:45 merge_attention(*result, *tile) -> merge_attention(*tile, *result)": (
            "It does not matter which of the two pieces comes first."
        ),
    },
    "split_heads": {
        "4:8 x.view -> x.reshape": "One axis cut in two: a view is always possible.",
        "5:11 x.transpose(1, 2) -> x.transpose(2, 1)": SAME_TWO,
    },
    "merge_heads": {
        "4:11 x.transpose(1, 2) -> x.transpose(2, 1)": SAME_TWO,
    },
    "torch_weights": {
        "4:37 w_q.T -> w_q.mT": "There are only two axes.",
        "4:44 w_k.T -> w_k.mT": "There are only two axes.",
        "4:51 w_v.T -> w_v.mT": "There are only two axes.",
        "5:27 w_o.T -> w_o.mT": "There are only two axes.",
    },
    "grouped_query_attention": {
        "3:26 k -> v": "Keys and values have equally many heads.",
    },
    "masked_heads": {
        "3:35 q -> k": "Queries and keys have the same sizes here.",
        "3:35 q -> v": "Queries and values have the same sizes here.",
        "7:11 out.transpose(1, 2) -> out.transpose(2, 1)": SAME_TWO,
    },
    "stretched_angles": {
        "4:7 tokens > trained -> tokens >= trained": "Where both are equal, s is 1.",
    },
    "alibi_bias": {
        "4:16 where[:, None] - where -> where - where[:, None]": "A distance has no sign.",
    },
    "score_at_distances": {
        "3:23 1 -> 2": "Of the repeated queries, one is read.",
        "3:26 1 -> 2": "Of the repeated queries, one is read.",
        "4:56 0 -> -1": "An axis of one: its last entry is its first.",
        "4:59 0 -> -1": "An axis of one: its last entry is its first.",
    },
    "apply_rotary": {
        "5:48 -1 -> 1": "The last of two axes.",
        "6:48 -1 -> 1": "The last of two axes.",
    },
    "layer_norm": {
        "4:16 x - mean -> mean - x": SQUARED,
    },
    "gelu": {
        "1:24 'none' -> 'nonex'": 'What is not "tanh" is the exact one.',
    },
    "rms_norm": {
        "5:59 x -> weight": "Both come in the same type.",
    },
    "batch_norm": {
        "3:11 x.mean(dim=(0, 1), keepdim=True) -> x.mean(dim=(0, 1))": IN_FRONT,
        "3:22 (0, 1) -> (1, 0)": ORDER,
        "3:38 True -> False": IN_FRONT,
        "4:15 (x - mean).square().mean(dim=(0, 1), keepdim=True)"
        " -> (x - mean).square().mean(dim=(0, 1))": IN_FRONT,
        "4:16 x - mean -> mean - x": SQUARED,
        "4:44 (0, 1) -> (1, 0)": ORDER,
        "4:60 True -> False": IN_FRONT,
    },
    "by_path_length": {
        "6:55 zip(rows[1:], longer, strict=True) -> zip(rows[1:], longer)": EQUALLY_LONG,
        "6:55 zip(rows[1:], longer, strict=True) -> zip(longer, rows[1:], strict=True)": (
            "A sum of two has no order."
        ),
        "6:84 True -> False": EQUALLY_LONG,
    },
    "norm_vjp": {
        "3:13 x - x.mean(dim=-1, keepdim=True) -> x.mean(dim=-1, keepdim=True) - x": (
            "y comes in twice: its sign does not matter."
        ),
    },
    "attention_vjp": {
        "3:12 q -> k": "Queries and keys are equally long: both have d_head.",
    },
    "rate_at": {
        "5:13 step - warm_up -> warm_up - step": "A cosine is the same on both sides of 0.",
        "5:32 steps - warm_up -> warm_up - steps": "A cosine is the same on both sides of 0.",
    },
    "first_std": {
        "5:21 ('out.weight', 'down.weight') -> ('down.weight', 'out.weight')": (
            "Either ending counts, in any order."
        ),
    },
    "clip_by_norm": {
        "3:23 first.square().sum().item() -> first.square().sum()": "math.sqrt takes a tensor.",
        "3:53 second.square().sum().item() -> second.square().sum()": "math.sqrt takes a tensor.",
        "4:30 length > most -> length >= most": "A factor of 1 changes nothing.",
    },
    "exact_matches": {
        "3:15 wanted -> written": "where the two stop at different places, they differ there",
        "4:13 is_stop.cumsum(dim=1) - is_stop -> is_stop - is_stop.cumsum(dim=1)": (
            "it is only asked whether it is 0"
        ),
    },
    "top_p": {
        "4:14 shares.sort(dim=-1, descending=True) -> shares.sort(descending=True)": (
            "The last axis is what torch sorts along by itself."
        ),
        "5:13 ordered.cumsum(dim=-1) - ordered < p -> ordered.cumsum(dim=-1) - ordered <= p": (
            "A sum that is exactly p is no case: rounding would decide."
        ),
    },
    "LanguageModel": {
        "10:20 nn.Linear(d_model, vocabulary, bias=False) -> "
        "nn.Linear(vocabulary, d_model, bias=False)": TIED,
        **dict.fromkeys(
            (f"10:30 d_model -> {x}" for x in ("vocabulary", "n_heads", "layers")), TIED
        ),
        **dict.fromkeys(
            (f"10:39 vocabulary -> {x}" for x in ("d_model", "n_heads", "layers")), TIED
        ),
        **dict.fromkeys(
            (
                "12:8 nn.init.normal_(self.tokens.weight, std=d_model ** (-0.5)) -> " + x
                for x in (
                    "nothing",
                    "nn.init.normal_(self.tokens.weight)",
                    "self.tokens.weight",
                    "nn.init",
                )
            ),
            FIRST_WEIGHTS,
        ),
        **dict.fromkeys(
            (
                "12:48 d_model ** (-0.5) -> (-0.5) ** d_model",
                "12:48 d_model ** (-0.5) -> d_model",
                *(f"12:48 d_model -> {x}" for x in ("vocabulary", "n_heads", "layers")),
                "12:57 -0.5 -> 0.5",
                "12:58 0.5 -> 1.0",
                "12:58 0.5 -> 0.25",
            ),
            FIRST_WEIGHTS,
        ),
    },
    "cached_attention": {
        "3:16 past_k -> past_v": EQUALLY_LONG,
        "3:33 k -> q": EQUALLY_LONG,
        "3:33 k -> v": EQUALLY_LONG,
    },
    "top_k": {
        "3:8 min(k, logits.shape[-1]) -> min(logits.shape[-1], k)": "The smaller of the two.",
        "4:12 logits.topk(k, dim=-1) -> logits.topk(k)": (
            "The last axis is what torch sorts along by itself."
        ),
    },
    "previous_token_score": {
        "3:32 -2 -> 2": "The third of four axes.",
        "3:49 (0, 2) -> (2, 0)": ORDER,
    },
    "induction_score": {
        "4:67 (0, 2) -> (2, 0)": ORDER,
    },
    "mean_ablate": {
        "5:23 heads -> new": "The copy of a head is still as it was, or its mean already.",
    },
    "restored": {
        "4:8 losses[:, length:].mean -> losses[:, length:].sum": (
            "Sums over equally many places have the same ratio as the means."
        ),
    },
    "without_key": {
        "6:23 left > 0 -> left >= 0": NOTHING_LEFT,
        "6:23 left -> weights": "Where there was no weight, none is left.",
        "6:23 left -> kept": "Where no weight is kept, it is 0 either way.",
        "6:30 0 -> -1": NOTHING_LEFT,
        "6:40 left.clamp(min=1e-30) -> left": "Where nothing is left, the zeros are taken.",
        "6:55 1e-30 -> 2e-30": NOTHING_LEFT,
        "6:55 1e-30 -> 5e-31": NOTHING_LEFT,
    },
    "quantize_rows": {
        "4:24 largest > 0 -> largest >= 0": NAN_IN_INT8,
        "4:34 0 -> -1": NAN_IN_INT8,
        "4:52 1.0 -> 2.0": "Of a row of zeros any scale will do.",
        "4:52 1.0 -> 0.5": "Of a row of zeros any scale will do.",
    },
    "partial_outputs": {
        "3:13 zip(w_up.chunk(devices), b_up.chunk(devices), w_down.chunk(devices, dim=1), "
        "strict=True) -> zip(w_up.chunk(devices), b_up.chunk(devices), "
        "w_down.chunk(devices, dim=1))": EQUALLY_LONG,
        "4:87 True -> False": EQUALLY_LONG,
    },
    "most_frequent_pair": {
        "4:24 zip(pieces, how_often, strict=True) -> zip(pieces, how_often)": EQUALLY_MANY,
        "4:54 True -> False": EQUALLY_MANY,
    },
    "merge_pair": {
        "5:49 tuple(pair) -> pair": "A pair is a tuple.",
    },
    "encode_piece": {
        "4:39 tokens -> piece": "Before any merge the tokens are the letters of the piece.",
    },
    "unpack_four_bits": {
        "3:14 torch.cat([packed & 15, packed >> 4], dim=-1).float()"
        " -> torch.cat([packed & 15, packed >> 4], dim=-1)": (
            "Whole numbers times a scale in float32 are in float32."
        ),
        "3:56 -1 -> 1": "The last of two axes.",
        "4:21 scale.float() -> scale": HALF_AND_FLOAT,
        "4:46 least.float() -> least": HALF_AND_FLOAT,
    },
    "rows_for_neighbours": {
        "4:11 halves.transpose(1, 2) -> halves.transpose(2, 1)": SAME_TWO,
    },
    "sentence_vectors": {
        "3:52 1 -> 2": COUNT_CANCELS,
        "4:11 torch.where(real[..., None], vectors, 0.0).sum(dim=1) / count"
        " -> torch.where(real[..., None], vectors, 0.0).sum(dim=1) * count": COUNT_CANCELS,
        "4:11 torch.where(real[..., None], vectors, 0.0).sum(dim=1) / count"
        " -> torch.where(real[..., None], vectors, 0.0).sum(dim=1)": COUNT_CANCELS,
        "4:11 torch.where(real[..., None], vectors, 0.0).sum"
        " -> torch.where(real[..., None], vectors, 0.0).mean": COUNT_CANCELS,
        "5:11 F.normalize(mean, dim=-1) -> F.normalize(mean)": "Axis 1 is the last of two.",
        "5:33 -1 -> 1": "The last of two axes.",
    },
}
