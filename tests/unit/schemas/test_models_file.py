"""The models file: aliases, endpoints, prices and time-outs."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from schemas.documents import read_document, validate_document
from schemas.models import ModelsFile, Price
from schemas.settings import SettingsError

CONTRACT = """
models:
  small:
    endpoints:
      - {base_url: "http://vllm-a:8000/v1", model: Qwen2.5-7B-Instruct, api_key_env: VLLM_KEY, weight: 1,
         rpm: 600, tpm: 200000, max_concurrency: 64}
    price: {input_per_million: 0.10, output_per_million: 0.40, batch_factor: 0.5}
    timeouts: {connect: 10, read: 120}
"""


def problems(model: dict[str, Any]) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        validate_document("models.yaml", {"models": {"m": model}}, ModelsFile)
    return caught.value.problems


def test_the_example_of_the_contract_is_a_models_file(tmp_path: Path) -> None:
    path = tmp_path / "models.yaml"
    path.write_text(CONTRACT)
    model = read_document(path, ModelsFile, yaml.safe_load).models["small"]
    endpoint = model.endpoints[0]
    assert (endpoint.base_url, endpoint.model, endpoint.api_key_env) == (
        "http://vllm-a:8000/v1",
        "Qwen2.5-7B-Instruct",
        "VLLM_KEY",
    )
    assert (endpoint.weight, endpoint.rpm, endpoint.tpm, endpoint.max_concurrency) == (1, 600, 200000, 64)
    assert model.price == Price(input_per_million=Decimal("0.10"), output_per_million=Decimal("0.40"))
    assert (model.timeouts.connect, model.timeouts.read) == (10, 120)


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ({"endpoints": []}, "models.m.endpoints"),
        ({}, "models.m.endpoints"),
        ({"endpoints": [{"base_url": "nowhere"}]}, "models.m.endpoints.0.base_url"),
        ({"endpoints": [{"base_url": "http://a/v1", "weight": -1}]}, "models.m.endpoints.0.weight"),
        ({"endpoints": [{"base_url": "http://a/v1", "rpm": 0}]}, "models.m.endpoints.0.rpm"),
        ({"endpoints": [{"base_url": "http://a/v1", "api_key_env": "A KEY"}]}, "models.m.endpoints.0.api_key_env"),
        ({"endpoints": [{"base_url": "http://a/v1", "api_key": "sk-1"}]}, "models.m.endpoints.0.api_key"),
        ({"endpoints": [{"base_url": "http://a/v1"}], "timeouts": {"read": 0}}, "models.m.timeouts.read"),
        ({"endpoints": [{"base_url": "http://a/v1"}], "price": {}}, "models.m.price.input_per_million"),
        ({"endpoints": [{"base_url": "http://a/v1", "weight": 0}]}, "models.m.endpoints"),
    ],
)
def test_a_mistake_is_named_with_its_path(model: dict[str, Any], path: str) -> None:
    assert path in {problem.split(":")[0] for problem in problems(model)}


def test_a_key_in_the_file_is_refused_and_not_shown() -> None:
    found = problems({"endpoints": [{"base_url": "http://a/v1", "api_key": "sk-canary"}]})
    assert "sk-canary" not in "".join(found)


def test_no_models_are_a_mistake() -> None:
    contents: list[dict[str, Any]] = [{}, {"models": {}}, {"models": None}]
    for content in contents:
        with pytest.raises(SettingsError, match="models"):
            validate_document("models.yaml", content, ModelsFile)


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.decimals(0, 1000, places=4), st.decimals(0, 1000, places=4))
def test_costs_are_exact(prompt: int, completion: int, given_in: Decimal, given_out: Decimal) -> None:
    price = Price(input_per_million=given_in, output_per_million=given_out)
    assert price.cost(prompt, completion) * 1_000_000 == given_in * prompt + given_out * completion


def test_a_float_price_of_yaml_is_its_decimal() -> None:
    price = Price.model_validate(yaml.safe_load("{input_per_million: 0.1, output_per_million: 0.4}"))
    assert price.cost(1, 1) == Decimal("0.0000005")
