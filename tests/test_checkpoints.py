"""tfcourse.checkpoints: whole or not at all, and a sentence where a file does not fit."""

import json
import os

import pytest
import torch
from safetensors.torch import save_file

from tfcourse import checkpoints
from tfcourse.models import LanguageModel, TransformerConfig

TOKENS = torch.tensor([[3, 1, 4, 1]])


def model_of(**options):
    return LanguageModel(TransformerConfig(7, 12, 3, 2, **options)).eval()


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_comes_back_as_it_was(tmp_path, tied):
    model, path = model_of(tied=tied, norm="rms", positions="learned", max_tokens=5), tmp_path / "m"
    checkpoints.save_model(path, model, vocabulary=list("abcdefg"), note="ü")
    state = torch.get_rng_state()
    again, about = checkpoints.load_model(path)
    assert torch.equal(torch.get_rng_state(), state)
    assert about == {"vocabulary": list("abcdefg"), "note": "ü"}
    assert again.config == model.config
    assert torch.equal(again(TOKENS), model(TOKENS))
    assert (again.head.weight is again.embed.tokens.weight) == tied
    assert not again.training


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "weights.safetensors"
    checkpoints.write(path, {"a": torch.ones(3)}, {"n": 1})

    def full(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"weights.safetensors .* No space left on device.*Make room"):
        checkpoints.write(path, {"a": torch.zeros(3)}, {"n": 2})
    monkeypatch.undo()
    tensors, about = checkpoints.read(path)
    assert tensors["a"].tolist() == [1, 1, 1]
    assert about == {"n": 1}
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("keep", [0, 5, 40, -1])
def test_a_file_cut_off(tmp_path, keep):
    path = tmp_path / "cut"
    checkpoints.save_model(path, model_of())
    content = path.read_bytes()[:keep]
    path.write_bytes(content)
    with pytest.raises(ValueError, match="cut is cut off or damaged"):
        checkpoints.load_model(path)
    assert path.read_bytes() == content


def test_files_that_are_no_model_of_this_course(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no file 'none'"):
        checkpoints.read(tmp_path / "none")
    save_file({"a": torch.ones(2)}, tmp_path / "other")
    with pytest.raises(ValueError, match="other holds tensors, but no note of this course"):
        checkpoints.read(tmp_path / "other")
    checkpoints.write(tmp_path / "later", {}, {"config": {"vocabulary": 3, "warp": 9}})
    with pytest.raises(ValueError, match=r"later is of another version of the course .*warp"):
        checkpoints.load_model(tmp_path / "later")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.pop("norm.bias"), "norm.bias is in the model but not in the file"),
        (lambda t: t.update(more=torch.ones(1)), "more is in the file alone"),
        (
            lambda t: t.update({"norm.bias": torch.ones(9)}),
            r"norm.bias is \(9,\) there, and",
        ),
    ],
)
def test_weights_that_do_not_fit_the_config(tmp_path, change, said):
    path = tmp_path / "m"
    checkpoints.save_model(path, model_of())
    tensors, about = checkpoints.read(path)
    change(tensors)
    checkpoints.write(path, tensors, about)
    with pytest.raises(ValueError, match=said):
        checkpoints.load_model(path)


def test_the_note_is_json_in_the_files_head(tmp_path):
    path = tmp_path / "m"
    checkpoints.save_model(path, model_of())
    size = int.from_bytes(path.read_bytes()[:8], "little")
    head = json.loads(path.read_bytes()[8 : 8 + size])
    assert json.loads(head["__metadata__"]["tfcourse"])["config"]["d_model"] == 12
