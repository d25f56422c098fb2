"""Which device, what it costs, and what is said when it is too small."""

import time

import pytest
import torch
import torch.nn.functional as F

from tfcourse import attention, device


def test_the_override(monkeypatch):
    monkeypatch.setenv("TFCOURSE_DEVICE", "cpu")
    assert device.pick_device() == torch.device("cpu")
    monkeypatch.setenv("TFCOURSE_DEVICE", "abacus")
    with pytest.raises(ValueError, match="must be one of cuda, mps, cpu. Got 'abacus'"):
        device.pick_device()
    monkeypatch.setenv("TFCOURSE_DEVICE", "cuda:77")
    with pytest.raises(
        ValueError, match=r"device of this machine, which has: .*cpu. Got 'cuda:77'"
    ):
        device.pick_device()


@pytest.mark.parametrize(
    ("here", "picked"), [({"cuda", "cpu"}, "cuda"), ({"mps", "cpu"}, "mps"), ({"cpu"}, "cpu")]
)
def test_cuda_then_mps_then_cpu(monkeypatch, here, picked):
    monkeypatch.delenv("TFCOURSE_DEVICE", raising=False)
    monkeypatch.setattr(device, "_count", lambda kind: int(kind in here))
    assert device.pick_device().type == picked


def test_description(monkeypatch):
    monkeypatch.setenv("TFCOURSE_DEVICE", "cpu")
    assert device.describe_device().startswith("cpu (")
    with pytest.raises(TypeError, match="device must be"):
        device.describe_device(3)
    with pytest.raises(ValueError, match="device must be one of cuda, mps, cpu. Got 'x'"):
        device.describe_device("x")
    with pytest.raises(ValueError, match="device must be a device of this machine"):
        device.describe_device("cuda:77")
    assert device.describe_device("cpu") == device.describe_device(torch.device("cpu"))


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB"),
        RuntimeError("MPS backend out of memory"),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp] . DefaultCPUAllocator: can't allocate memory"
        ),
        MemoryError(),
    ],
)
def test_out_of_memory_is_explained(error):
    with (
        pytest.raises(MemoryError, match="Not enough memory with batch=64. Try batch=32."),
        device.explain_out_of_memory("batch", 64),
    ):
        raise error


def test_a_real_allocation_that_cannot_be_met():
    with (
        pytest.raises(MemoryError, match="Try tokens="),
        device.explain_out_of_memory("tokens", 2**24),
    ):
        torch.empty(2**24, 2**24, 8)


def test_other_errors_pass_as_they_are():
    with (
        pytest.raises(RuntimeError, match="shapes cannot be multiplied"),
        device.explain_out_of_memory("batch", 64),
    ):
        torch.ones(2, 3) @ torch.ones(2, 3)


def test_seconds():
    median, spread = device.measure_seconds(lambda: time.sleep(0.02), repeats=3)
    assert 0.02 <= median < 0.2
    assert spread >= 0
    assert device.measure_seconds(lambda: None, repeats=1)[1] == 0
    with pytest.raises(ValueError, match="repeats must be at least 1"):
        device.measure_seconds(lambda: None, repeats=0)
    with pytest.raises(TypeError, match="work must be a function"):
        device.measure_seconds(3)


def test_peak_memory_counts_what_is_held_at_once(monkeypatch):
    monkeypatch.setenv("TFCOURSE_DEVICE", "cpu")
    megabyte = 2**18  # floats

    def one_after_the_other():
        for _ in range(5):
            torch.ones(megabyte)

    def all_together():
        return [torch.ones(megabyte) for _ in range(5)]

    assert 1 * 2**20 <= device.measure_peak_memory(one_after_the_other) < 1.1 * 2**20
    assert 5 * 2**20 <= device.measure_peak_memory(all_together) < 5.1 * 2**20


def test_peak_memory_sees_inside_the_fused_kernel(monkeypatch):
    monkeypatch.setenv("TFCOURSE_DEVICE", "cpu")
    q = torch.randn(1, 2, 512, 32)
    scores = 2 * 512 * 512 * 4
    explicit = device.measure_peak_memory(lambda: attention.scaled_dot_product_attention(q, q, q))
    fused = device.measure_peak_memory(lambda: F.scaled_dot_product_attention(q, q, q))
    assert explicit >= scores
    assert q.nbytes <= fused < scores


def test_peak_memory_is_that_of_the_device_where_the_tensors_lie(monkeypatch):
    """A machine with CUDA, and work on its processor: CUDA's counters stay where they are."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    counters = {"memory_allocated": 512, "max_memory_allocated": 512}
    for name in ("synchronize", "reset_peak_memory_stats", *counters):
        monkeypatch.setattr(torch.cuda, name, lambda *_, name=name: counters.get(name))
    monkeypatch.setenv("TFCOURSE_DEVICE", "cuda")
    megabyte = 2**18  # floats
    held = device.measure_peak_memory(lambda: torch.ones(3 * megabyte))
    assert 3 * 2**20 <= held < 3.1 * 2**20
    counters["max_memory_allocated"] = 512 + 8 * 2**20  # now there is work on CUDA, and more of it
    assert device.measure_peak_memory(lambda: torch.ones(3 * megabyte)) == 8 * 2**20


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU with CUDA")
def test_on_a_gpu():
    assert device.pick_device().type == "cuda"
    assert "GiB" in device.describe_device()
    big = device.measure_peak_memory(lambda: torch.ones(2**20, device="cuda"))
    assert 4 * 2**20 <= big < 4.1 * 2**20
    on_the_processor = device.measure_peak_memory(lambda: torch.ones(2**20))
    assert 4 * 2**20 <= on_the_processor < 4.1 * 2**20


def test_side_by_side():
    def wait():
        time.sleep(0.002)

    times = device.measure_side_by_side({"nothing": lambda: None, "wait": wait}, rounds=7)
    assert list(times) == ["nothing", "wait"]
    assert [len(seconds) for seconds in times.values()] == [7, 7]
    assert min(times["wait"]) >= 0.002
    with pytest.raises(TypeError, match="work must be a function"):
        device.measure_side_by_side({"a": 3})
    with pytest.raises(ValueError, match="rounds must be at least 6. Got 5."):
        device.measure_side_by_side({"nothing": lambda: None}, rounds=5)


def test_side_by_side_in_changing_order():
    order = []
    works = {name: lambda name=name: order.append(name) for name in "abc"}
    times = device.measure_side_by_side(works, rounds=20)
    assert {len(seconds) for seconds in times.values()} == {20}
    rounds = ["".join(order[i : i + 3]) for i in range(3, 63, 3)]  # the first three warm up
    assert len(order) == 63
    assert all(sorted(one) == ["a", "b", "c"] for one in rounds)
    assert len(set(rounds)) > 3


def test_the_interval_of_a_median():
    """Ranks as in the tables of the sign test: 1 and 6 of 6, 2 and 9 of 10, 6 and 16 of 21."""
    for n, low, high in ((6, 1, 6), (10, 2, 9), (21, 6, 16)):
        found = device.median_interval(float(i) for i in range(n, 0, -1))
        assert (found.low, found.high) == (low, high)
        assert found.middle == (n + 1) / 2
    assert str(found) == "11.00 [6.00, 16.00]"
    with pytest.raises(ValueError, match="values must be at least six. Got 5."):
        device.median_interval([1.0] * 5)


def test_the_interval_holds_the_median():
    generator = torch.Generator().manual_seed(0)
    inside = 0
    for _ in range(400):
        found = device.median_interval(torch.randn(15, generator=generator).exp().tolist())
        inside += found.low <= 1.0 <= found.high
    assert inside >= 370
