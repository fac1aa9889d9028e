"""A report with something of everything in it, hostile names included."""

from localspec.bench.curves import Curve
from localspec.bench.results import Machine, ModelFile, ModeReport, Report, Row
from localspec.bench.stats import Estimate

HOSTILE = '</title><script>alert("x")</script>\x1b[2J\u202e&amp;'

MACHINE = Machine(
    processor="A & B <cpu>", cores=2, system="Linux", python="3.11", localspec="0.1", target=ModelFile("t.gguf", 10**9),
    draft=ModelFile(HOSTILE, 5 * 10**8), threads=2, context=4096, gpu_layers=0, kv_type="f16", flash_attn="off",
    library="llama 1 | AVX2 = 1",
)  # fmt: skip

EDIT = Row(
    "code-edit", prompts=2, answers=6, tokens=378, wall=Estimate(2.5, 2.1, 2.9), virtual=2.6, bound=3.0, judged=300,
    accepted=270, cycles=126, drafters={"lookup": 100, "draft": 20, "none": 6},
)  # fmt: skip
CHAT = Row(HOSTILE, prompts=1, answers=3, tokens=189, wall=Estimate(0.95, 0.9, 0.99), virtual=0.97, cycles=189)
MEAN = Row("geometric mean", prompts=3, answers=9, tokens=567, wall=Estimate(1.54, 1.4, 1.6), virtual=1.59, cycles=315)

MODE = ModeReport(
    name="auto", speculate="auto", draft_length=None, temperature=0.0, mean=MEAN, categories=(EDIT, CHAT),
    prompts=(Row("code-edit", id=HOSTILE, speedups=(2.1, 2.9), wall=Estimate(2.5, 2.1, 2.9)),),
    run_lengths={"lookup": {"0": 10, "3": 20, "15": 70}, "draft": {"1": 20}},
    draft_lengths={"lookup": {"3": 30, "15": 70}, "draft": {"2": 20}},
)  # fmt: skip

CURVE = Curve("measured here", (1, 2, 4, 16, 33), (128, 2048), ((1, 1.5, 1.7, 4, 7.5), (1, 1.7, 2.1, 6, 11)), 0.44)

REPORT = Report(
    date="2025-01-02T03:04:05+00:00", command=f"localspec bench --workload '{HOSTILE}'", complete=False,
    machine=MACHINE, workload=HOSTILE, rounds=3, max_tokens=64, pair="mine", modes=(MODE,), curve=CURVE, load=5.5,
)  # fmt: skip
