"""The benchmarks: what is measured against whom, and what is expected. One declaration each."""

from rdmaxx_bench import delay, soft, stream
from rdmaxx_bench.benchmark import Benchmark
from rdmaxx_bench.goals import AtMostMore
from rdmaxx_bench.runners import CallgrindPair


def _verbs_instructions(operation: str, operations: int = 1, peer: str = "") -> Benchmark:
    """A call of the verbs layer against the same loop in C (`peer`, if it is called otherwise), in
    benchmarks/verbs_instructions.cpp."""
    return Benchmark(
        name=f"verbs/{operation}",
        peer="libibverbs in C",
        unit="instructions/operation",
        goal=AtMostMore(2),
        runner=CallgrindPair(
            program="benchmarks/verbs_instructions",
            ours=f"cpp_{operation}",
            peer=f"c_{peer or operation}",
            operations=operations,
        ),
    )


ALL = (
    _verbs_instructions("post_send_1sge"),
    _verbs_instructions("post_send_named", peer="post_send_1sge"),
    _verbs_instructions("post_send_inline"),
    _verbs_instructions("post_send_list16", operations=16),
    _verbs_instructions("post_recv"),
    _verbs_instructions("poll_empty"),
    _verbs_instructions("poll_1"),
    _verbs_instructions("poll_16", operations=16),
    *soft.ALL,
    *delay.ALL,
    *stream.ALL,
)
