"""Files of published models: in a folder of this machine, or fetched from the hub once."""

from __future__ import annotations

from pathlib import Path


def find_file(model: str, name: str) -> Path:
    """A file of a model: in a local folder, or fetched from the hub once. Raises ``OSError``."""
    if Path(model).is_dir():
        path = Path(model) / name
        if not path.is_file():
            raise FileNotFoundError(f"{model} has no {name}")
        return path
    from huggingface_hub import hf_hub_download

    return Path(hf_hub_download(model, name))
