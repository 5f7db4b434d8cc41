"""*Endpoints and limits*: what the model servers answer, how fast, and what holds the calls back."""

from __future__ import annotations

from deploy.grafana.parts import Board, Graph, Line, Number, Row, Variable
from deploy.grafana.queries import CALLS, ENDPOINTS, SERVERS, WORKERS, newly, now, per_second, quantile, share

_ANSWERED = f'{CALLS}, outcome=~"answered|unfit"'
_MODELS = f'{WORKERS}, model=~"$model"'

_NOW = Row(
    "Now",
    (
        Number("Calls", "Calls that end, a second.", "cps", (Line(per_second("headrace_calls_total", where=CALLS)),)),
        Number(
            "Answered",
            "Calls that brought an answer, of all that ended.",
            "percentunit",
            (
                Line(
                    share(
                        per_second("headrace_calls_total", where=_ANSWERED),
                        per_second("headrace_calls_total", where=CALLS),
                    )
                ),
            ),
        ),
        Number(
            "Half of the calls take less than",
            "The median of the time of a call.",
            "s",
            (Line(quantile(0.5, "headrace_call_seconds", where=CALLS)),),
        ),
        Number(
            "Endpoints not called",
            "Their circuit is open: they answer nobody, or refuse the whole run.",
            "short",
            (Line(f"sum ({now('headrace_circuit_open', 'endpoint', 'max', ENDPOINTS)})"),),
        ),
    ),
)

_CALLS = Row(
    "Calls",
    (
        Graph(
            "Calls by outcome",
            "`answered` and `unfit` are answers; `rejected` lies at the row, `run_fault` at the run.",
            "cps",
            (Line(per_second("headrace_calls_total", "outcome", CALLS), "{{outcome}}"),),
            stacked=True,
        ),
        Graph(
            "Calls by endpoint",
            "Endpoints of one alias share its calls by their weight, and by who has room.",
            "cps",
            (Line(per_second("headrace_calls_total", "model, endpoint", CALLS), "{{model}} at {{endpoint}}"),),
            stacked=True,
        ),
        Graph(
            "Time of a call",
            "From sending to the end of the answer, waiting for a place not counted.",
            "s",
            (
                Line(quantile(0.5, "headrace_call_seconds", "endpoint", CALLS), "{{endpoint}} half"),
                Line(quantile(0.95, "headrace_call_seconds", "endpoint", CALLS), "{{endpoint}} 19 of 20"),
                Line(quantile(0.99, "headrace_call_seconds", "endpoint", CALLS), "{{endpoint}} 99 of 100"),
            ),
        ),
        Graph(
            "Tokens",
            "As the servers report them; a server that reports none counts as nothing.",
            "short",
            (Line(per_second("headrace_tokens_total", "model, kind", _MODELS), "{{model}} {{kind}} a second"),),
            stacked=True,
        ),
    ),
)

_LIMITS = Row(
    "Limits",
    (
        Graph(
            "Calls at once: open, and allowed",
            "The limit is found from the answers. Open at the limit: the endpoint is the bottleneck.",
            "short",
            (
                Line(now("headrace_concurrency_limit", "endpoint", where=ENDPOINTS), "{{endpoint}} allowed"),
                Line(now("headrace_in_flight"), "open, all endpoints"),
            ),
        ),
        Graph(
            "Asked to wait",
            "Seconds a second of Retry-After. As many as there are workers: all of them wait all the time.",
            "short",
            (
                Line(
                    per_second("headrace_rate_limited_seconds_total", "endpoint", ENDPOINTS),
                    "{{endpoint}}",
                ),
            ),
        ),
        Graph(
            "Not called",
            "1 while a circuit is open.",
            "short",
            (Line(now("headrace_circuit_open", "endpoint", "max", ENDPOINTS), "{{endpoint}}"),),
        ),
        Graph(
            "Refusals of the whole run",
            "Wrong key, unknown model, empty account. Five of the fleet open the circuit; later ones are probes.",
            "short",
            (
                Line(
                    newly("headrace_calls_total", "endpoint", f'{CALLS}, outcome="run_fault"'),
                    "{{endpoint}}",
                ),
            ),
        ),
    ),
)

_CLIENT = Row(
    "OpenTelemetry's names",
    (
        Graph(
            "Time of an operation, 19 of 20",
            "`gen_ai.client.operation.duration`, by the server's own name of the model.",
            "s",
            (
                Line(
                    quantile(
                        0.95, "gen_ai_client_operation_duration_seconds", "gen_ai_request_model, server_address"
                    ),
                    "{{gen_ai_request_model}} at {{server_address}}",
                ),
            ),
        ),
        Graph(
            "Tokens of a call, 19 of 20",
            "`gen_ai.client.token.usage`.",
            "short",
            (
                Line(
                    quantile(0.95, "gen_ai_client_token_usage", "gen_ai_request_model, gen_ai_token_type"),
                    "{{gen_ai_request_model}} {{gen_ai_token_type}}",
                ),
            ),
        ),
    ),
    folded=True,
)

_SERVER = Row(
    "Model server",
    (
        Graph(
            "Requests in vLLM",
            "A queue that grows: the server is the bottleneck, whatever the limits say.",
            "short",
            (
                Line(now("vllm:num_requests_running", "model_name", where=SERVERS), "{{model_name}} running"),
                Line(now("vllm:num_requests_waiting", "model_name", where=SERVERS), "{{model_name}} waiting"),
            ),
        ),
        Graph(
            "KV cache in use",
            "Near 1, requests are put by and computed again.",
            "percentunit",
            (Line(now("vllm:kv_cache_usage_perc", "model_name", "max", SERVERS), "{{model_name}}"),),
        ),
        Graph(
            "Tokens of vLLM",
            "Read and written, a second.",
            "short",
            (
                Line(per_second("vllm:prompt_tokens_total", "model_name", SERVERS), "{{model_name}} prompt"),
                Line(per_second("vllm:generation_tokens_total", "model_name", SERVERS), "{{model_name}} generation"),
            ),
        ),
        Graph(
            "Times of vLLM, 19 of 20",
            "In its queue, to the first token, to the end.",
            "s",
            (
                Line(quantile(0.95, "vllm:request_queue_time_seconds", where=SERVERS), "queue"),
                Line(quantile(0.95, "vllm:time_to_first_token_seconds", where=SERVERS), "first token"),
                Line(quantile(0.95, "vllm:e2e_request_latency_seconds", where=SERVERS), "end"),
            ),
        ),
    ),
    folded=True,
)

BOARD = Board(
    name="endpoints",
    title="Headrace / Endpoints and limits",
    description="What the model servers answer, how fast, and what holds the calls back.",
    variables=(
        Variable("job", "Job", "headrace_build_info", "job"),
        Variable("instance", "Instance", 'headrace_build_info{job=~"$job"}', "instance"),
        Variable("model", "Model", 'headrace_calls_total{job=~"$job"}', "model"),
        Variable("endpoint", "Endpoint", 'headrace_calls_total{job=~"$job", model=~"$model"}', "endpoint"),
        Variable("server", "Model server", "vllm:num_requests_running", "job"),
    ),
    rows=(_NOW, _CALLS, _LIMITS, _CLIENT, _SERVER),
)
