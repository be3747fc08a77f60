"""Hashes of models and samples, and results kept by sample."""
from __future__ import annotations

import numpy as np
from models import MODELS
from small import planned

from ptqlab.quantize.store import Kept, digest_of, model_digest


def test_digests_tell_models_apart() -> None:
    """The same model loaded twice has one hash; one weight's last bit changes it."""
    model, _ = MODELS["conv_bn_relu"]()
    first, second = planned(model)[0], planned(model)[0]
    assert model_digest(first) == model_digest(second) == model_digest(first)
    other = planned(model)[0]
    name = next(n for n in other.initializers if other.array(n).dtype == np.float32)
    tensor = other.model.graph.initializers[name].const_value
    array = tensor.numpy().copy()  # type: ignore[union-attr]
    array.reshape(-1)[0] = np.nextafter(array.reshape(-1)[0], np.float32(9))
    import onnx_ir as ir

    other.model.graph.initializers[name].const_value = ir.tensor(array, name=name)
    assert model_digest(other) != model_digest(first)


def test_digests_tell_arrays_apart() -> None:
    """Contents, type and shape count; the order of names does not."""
    a = np.arange(6, dtype=np.float32)
    assert digest_of({"x": a, "y": a}) == digest_of({"y": a.copy(), "x": a.copy()})
    different = [a, a.reshape(2, 3), a.astype(np.float64), a + 1, np.asfortranarray(a.reshape(2, 3)).T]
    assert len({digest_of({"x": array}) for array in different}) == len(different)
    assert digest_of({"x": a.reshape(2, 3)}) == digest_of({"x": np.asfortranarray(a.reshape(2, 3))})
    assert digest_of(a) != digest_of("a", 1)


class Memory(dict[str, bytes]):
    def put(self, key: str, data: bytes) -> None:
        self[key] = data


def test_kept_results() -> None:
    """Results come back for the same first samples, up to the first that differs, and survive nonsense in the store."""
    samples = [{"x": np.full(3, i, np.float32)} for i in range(4)]
    store = Memory()
    kept = Kept(store, "aa", samples, 4)
    assert kept.known == 0
    for value in ([1.5], [float("inf")], [0.1 + 0.2]):
        kept.add(value)
    kept.save()
    assert Kept(store, "aa", samples, 4).results == [[1.5], [float("inf")], [0.1 + 0.2]]
    assert Kept(store, "aa", samples, 2).results == [[1.5], [float("inf")]]
    changed = [samples[0], samples[2], *samples[2:]]
    assert Kept(store, "aa", changed, 4).results == [[1.5]]
    assert Kept(store, "bb", samples, 4).results == []
    for nonsense in (b"", b"{", b"{}", b'["x"]', b"\xff"):
        store["aa"] = nonsense
        assert Kept(store, "aa", samples, 4).results == []
    assert Kept(None, "", samples, 4).results == []
