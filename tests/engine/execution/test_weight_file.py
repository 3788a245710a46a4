"""A file of tensors gives back what was written, or is known not to."""

from pathlib import Path

import pytest
import torch

from engine.execution import weight_file
from engine.execution.weight_file import (
    ALIGNMENT_BYTES,
    BadWeightFile,
    WeightFile,
    WeightFileWriter,
)

TENSORS = {
    "bfloat16": torch.arange(3 * 5 * 16).view(3, 5, 16).to(torch.bfloat16),
    "float32": torch.linspace(-1.0, 1.0, 100_003),
    "int8": torch.arange(-128, 127, dtype=torch.int8),
    "a scalar": torch.tensor(0.1, dtype=torch.float64),
    "not contiguous": torch.arange(12.0).view(3, 4).t(),
}


def write(path: Path, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """What the writer gave back, of a file that is finished."""
    with path.open("w+b") as file:
        writer = WeightFileWriter(file)
        given_back = {name: writer.append(name, tensor) for name, tensor in tensors.items()}
        writer.finish()
    return given_back


def same(tensor: torch.Tensor | None, expected: torch.Tensor) -> bool:
    return (
        tensor is not None and tensor.dtype == expected.dtype and torch.equal(tensor, expected)
    )  # fmt: skip


@pytest.mark.parametrize("mapping_bytes", [ALIGNMENT_BYTES, weight_file._MAPPING_BYTES])
def test_tensors_are_what_they_were_while_the_file_is_written_and_after(
    mapping_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weight_file, "_MAPPING_BYTES", mapping_bytes)
    given_back = write(tmp_path / "file", TENSORS)
    read = WeightFile(tmp_path / "file")
    for name, tensor in TENSORS.items():
        assert same(given_back[name], tensor), name
        assert same(read.tensor(name), tensor), name


def test_a_name_that_was_not_written_has_no_tensor(tmp_path: Path) -> None:
    write(tmp_path / "file", TENSORS)
    assert WeightFile(tmp_path / "file").tensor("another") is None


def test_a_file_is_as_long_as_its_tensors_need(tmp_path: Path) -> None:
    write(tmp_path / "file", {"a": torch.ones(ALIGNMENT_BYTES // 4), "b": torch.ones(4)})
    assert ALIGNMENT_BYTES < (tmp_path / "file").stat().st_size < ALIGNMENT_BYTES + 1000


def test_tensors_begin_where_a_page_does(tmp_path: Path) -> None:
    write(tmp_path / "file", TENSORS)
    read = WeightFile(tmp_path / "file")
    for name in TENSORS:
        tensor = read.tensor(name)
        assert tensor is not None
        assert tensor.data_ptr() % 4096 == 0


def test_a_file_that_was_not_finished_is_none(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w+b") as file:
        WeightFileWriter(file).append("a", torch.ones(1000))
        with pytest.raises(BadWeightFile, match="cut short"):
            WeightFile(tmp_path / "file")


def test_a_file_that_is_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write(path, TENSORS)
    content = path.read_bytes()
    for length in (0, 1, 39, 40, 5000, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(BadWeightFile):
            WeightFile(path)


def test_a_changed_bit_of_any_tensor_or_of_the_index_is_found(tmp_path: Path) -> None:
    path = tmp_path / "file"
    given_back = write(path, TENSORS)
    content = bytearray(path.read_bytes())
    read = WeightFile(path)
    begin = min(_address(read, name) for name in given_back)
    places = [_address(read, name) - begin for name in given_back]
    last_bytes = [
        place + TENSORS[name].nbytes - 1 for name, place in zip(given_back, places, strict=True)
    ]
    for place in (*places, *last_bytes, len(content) - 41):
        content[place] ^= 4
        path.write_bytes(content)
        with pytest.raises(BadWeightFile, match="not as it was written"):
            WeightFile(path)
        content[place] ^= 4
    path.write_bytes(content)
    assert same(WeightFile(path).tensor("float32"), TENSORS["float32"])


def _address(file: WeightFile, name: str) -> int:
    tensor = file.tensor(name)
    assert tensor is not None
    return tensor.data_ptr()
