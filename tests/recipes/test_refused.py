"""Recipes that are no recipes: what is wrong, in which line, and what it could have been."""

from __future__ import annotations

from pathlib import Path

import pytest

from deep_bench.errors import DeepBenchError, InvalidArgument
from deep_bench.recipes import load_experiment

TRAINING = "level: training\nfixed:\n  recipe: digits\n"
NETWORK = "level: network\nfixed:\n  network: digits-cnn\n"
OPERATORS = "level: operators\nfixed:\n  on: reference\n"

WRONG = {
    "a field of the level": (
        f"{TRAINING}  on: torch\n  optimiser: sgd\n",
        "line 5: 'optimiser' is no field of training; did you mean 'optimizer'?",
    ),
    "a field of all recipes": (f"{NETWORK}matrx: {{}}\n", "line 4: 'matrx' is no field of a recipe; did you mean 'matrix'?"),
    "a field within a part": (f"{NETWORK}limits: {{cel: 3}}\n", "line 4: 'cel' is no field of limits; did you mean 'cell'?"),
    "a level": ("level: netwrok\n", "line 1: 'level' of a recipe is 'netwrok'"),
    "no level": ("fixed: {}\n", "a recipe lacks 'level'"),
    "a factor": (f"{NETWORK}matrix:\n  batchs: [1]\n", "line 5: 'batchs' is no field of network; did you mean 'batch'?"),
    "a factor without values": (f"{NETWORK}matrix:\n  batch: []\n", "line 5: the factor 'batch' has no values"),
    "a value twice": (f"{NETWORK}matrix: {{batch: [1, 8, 1]}}\n", "line 4: the factor 'batch' has the value 1 twice"),
    "fixed and varied": (f"{NETWORK}  batch: 1\nmatrix:\n  batch: [1]\n", "line 6: 'batch' is fixed and varies"),
    "a kind": (f"{NETWORK}  batch: two\n", "line 4: 'batch' of network is 'two'"),
    "a kind of a factor": (f"{NETWORK}matrix:\n  batch:\n  - 1\n  - two\n", "line 7: 'batch' of network is 'two'"),
    "a framework": (f"{NETWORK}  on: [torhc]\n", "line 4: unknown framework 'torhc'"),
    "a framework with options": (f"{NETWORK}  on: [torhc:threads=1]\n", "line 4: unknown framework 'torhc'"),
    "a framework twice": (f"{NETWORK}  on: [torch, torch]\n", "line 4: on torch and torch"),
    "a framework twice, its options in another order": (
        f"{NETWORK}  on: ['onnxruntime:threads=1,optimize=off', 'onnxruntime:optimize=off,threads=1']\n",
        "line 4: on onnxruntime:threads=1,optimize=off and onnxruntime:optimize=off,threads=1",
    ),
    "options that are none": (f"{NETWORK}  on: [onnxruntime:threads]\n", "line 4: options 'threads' of onnxruntime"),
    "a network that ships": ("level: network\nfixed: {network: digits-cn}\n", "did you mean 'digits-cnn'?"),
    "a setting of a network": (
        "level: network\nfixed:\n  network: {name: mlp, hiden: [4]}\n",
        "line 3: the network mlp has no setting 'hiden'\nExpected: one of sample, hidden",
    ),
    "a network": ("level: network\nfixed:\n  network: {name: rasnet}\n", "line 3: unknown network 'rasnet'"),
    "a suite": (f"{OPERATORS}  suite: deepbench/gem/device\n", "line 4: unknown suite 'deepbench/gem/device'"),
    "no cases": (OPERATORS, "a recipe of operators without cases"),
    "a case that is none": (f"{OPERATORS}  cases:\n  - {{operator: MatMul, inputs: [[2, 3], [4, 5]]}}\n", "MatMul"),
    "a field of a case": (
        f"{OPERATORS}  cases:\n  - {{operator: MatMul, input: [[2, 2]]}}\n",
        "line 5: 'input' is no field of cases",
    ),
    "both kinds of cases": (
        f"{OPERATORS}  suite: convnet/1d\n  cases:\n  - {{operator: Relu, inputs: [[2]]}}\n",
        "line 5: cases written out beside a suite",
    ),
    "nobody": ("level: operators\nfixed:\n  suite: convnet/1d\n", "line 3: nobody takes part"),
    "two frameworks to train on": (f"{TRAINING}  on: [torch, reference]\n", "line 4: a training on torch, reference"),
    "a setting of an optimizer": (
        f"{TRAINING}  on: torch\n  optimizer.lrr: 0.1\n",
        "line 5: optimizer adam has no setting 'lrr'",
    ),
    "a training recipe": (
        "level: training\nfixed: {recipe: dgits, on: torch}\n",
        "the training recipe 'dgits' (one of",
    ),
    "runs without seeds": (f"{TRAINING}  on: torch\n  runs: 11\n", "line 5: 11 runs with 10 seeds"),
    "a scheme": (f"{TRAINING}  on: torch\n  distributed: alreduce\n", "line 5: unknown distributed optimizer 'alreduce'"),
    "one rank that talks": (
        "level: communication\nfixed: {collectives: allreduce, ranks: 1}\n",
        "greater than or equal to 2",
    ),
    "a collective": ("level: communication\nfixed: {collectives: alreduce, ranks: 2}\n", "unknown collective 'alreduce'"),
    "costs of messages": ("level: scaling\nfixed: {recipe: digits}\n", "what messages cost is not clear"),
    "a duration": (f"{NETWORK}limits: {{cell: 3 weeks}}\n", "line 4: 'limits.cell' of a recipe is '3 weeks'"),
    "an exclusion": (
        f"{NETWORK}matrix: {{batch: [1]}}\nexclude:\n- batch: 2\n",
        "line 6: batch=2 is excluded, which there is not",
    ),
    "an exclusion of what does not vary": (
        f"{NETWORK}matrix: {{batch: [1]}}\nexclude:\n- seed: 2\n",
        "line 6: 'seed' is excluded",
    ),
    "nothing left": (f"{NETWORK}matrix: {{batch: [1]}}\nexclude:\n- batch: 1\n", "leaves 0 combinations"),
    "a condition": (f"{NETWORK}accept:\n  forward: 5 ms\n", "line 5: 'forward' of accept: '5 ms' is no condition"),
    "conditions that are none": (
        f"{NETWORK}accept:\n  forward: 5 ms\n  verdict: rigt\n",
        "2 things are wrong:\n  line 5: 'forward' of accept: '5 ms' is no condition",
    ),
    "a figure": (
        f"{NETWORK}accept:\n  forwrd: '<= 5 ms'\n",
        "line 5: 'forwrd' of accept is no figure of the results (level network)\n"
        "Expected: one of forward, from NumPy, first call, setup, peak memory, verdict, significant bits\n"
        "What to do: did you mean 'forward'?",
    ),
    "a unit": (f"{NETWORK}accept:\n  forward: <= 5 apples\n", "line 5: 'forward' of accept: the unit 'apples', where ns"),
    "a direction": (
        f"{NETWORK}accept:\n  forward: '>= 5 ms'\n",
        "line 5: 'forward' of accept: lower is better: write '<='",
    ),
    "a label": (
        f"{NETWORK}accept:\n- where:\n    sytem: torch\n  verdict: right\n",
        "line 6: 'sytem' of where is no label of the results of level network",
    ),
    "the value of a label": (
        f"{NETWORK}  on: [torch]\n  threads: 2\naccept:\n- {{where: {{system: torch}}, verdict: right}}\n",
        "line 7: no result has system=torch\nExpected: one of torch:threads=2",
    ),
    "labels that do not occur together": (
        f"{NETWORK}matrix: {{batch: [1, 2], seed: [0, 1]}}\nexclude: [{{batch: 1, seed: 1}}]\n"
        "accept:\n- where: {batch: 1, seed: 1}\n  verdict: right\n",
        "line 7: no cell has results with batch=1, seed=1",
    ),
    "a score": (f"{TRAINING}  on: torch\naccept: {{accurcy: '>= 90 %'}}\n", "did you mean 'accuracy'?"),
    "a verdict where nothing is checked": (
        f"{TRAINING}  on: torch\naccept: {{verdict: right}}\n",
        "line 5: 'verdict' of accept: right, where nothing is checked (level training)",
    ),
    "bits that are not found out": (
        f"{NETWORK}  check: 'off'\naccept: {{significant bits: '>= 20'}}\n",
        "line 5: 'significant bits' of accept: none are found out",
    ),
    "a figure that is not asked for": (
        f"{OPERATORS}  suite: convnet/1d\naccept:\n  backward: '<= 1 s'\n  peak memory: '<= 1 GB'\n",
        "it needs backward: true\n  line 7: 'peak memory' of accept is no figure of the results (level operators): it needs "
        "metrics: [peak memory]",
    ),
    "a bandwidth of what has none": (
        "level: communication\nfixed: {collectives: barrier, ranks: 2}\naccept: {bus bandwidth: '>= 1 GB/s'}\n",
        "line 3: 'bus bandwidth' of accept is no figure",
    ),
    "a figure of the table": (
        f"{NETWORK}metrics:\n- forward\n- tiem\n",
        "line 6: 'tiem' of metrics is no figure of the results (level network)",
    ),
    "several things": (
        f"{NETWORK}  batch: two\n  check: hard\n  bugdet: 3s\n",
        "line 6: 'bugdet' is no field of network; did you mean 'budget'?",
    ),
    "several values": (
        f"{NETWORK}  batch: two\n  check: hard\n",
        "2 things are wrong:\n  line 4: 'batch' of network is 'two'; expected: a valid integer\n"
        "  line 5: 'check' of network is 'hard'; expected: 'auto', 'quick', 'full' or 'off'",
    ),
    "a verdict": (f"{NETWORK}accept: {{verdict: rigt}}\n", "did you mean 'right'?"),
    "fewer bits": (f"{NETWORK}accept: {{significant bits: '<= 20'}}\n", "more significant bits are better"),
    "a duration of ages": (f"{NETWORK}limits: {{cell: 4000 d}}\n", "Expected: a duration above 0 and up to 3650d"),
    "a job shorter than its cell": (
        f"{NETWORK}slurm: {{time: 5min}}\n",
        "line 4: jobs of 300 s for cells that may take 3600 s",
    ),
    "an option for sbatch": (f'{NETWORK}slurm:\n  account: "x\\nrm -rf ~"\n', "line 5: 'slurm.account' of a recipe"),
    "a parameter for sbatch": (f"{NETWORK}slurm:\n  parameters: {{gres: 'a; b'}}\n", "of a recipe is 'a; b'"),
    "a line's end for sbatch": (f'{NETWORK}slurm:\n  qos: "high\\n"\n', "line 5: 'slurm.qos' of a recipe"),
    "a large file": ("#" * 4_000_001, "more than 4000000 characters"),
    "a name of an option for sbatch": (f"{NETWORK}slurm:\n  parameters: {{'a b': 1}}\n", "line 5"),
    "a name that is a path": (f"{NETWORK}name: ../../out\n", "line 4: 'name' of a recipe is '../../out'"),
    "a hidden name": (
        f"{NETWORK}name: .ssh\n",
        "line 4: 'name' of a recipe is '.ssh'\nExpected: up to 80 letters without / or \\ that do not begin with a dot",
    ),
    "no mapping": ("- level\n", "is a list"),
    "nothing": ("# to be written\n", "wrong.yaml is empty"),
    "an empty field": ("level: network\nfixed:\n", "line 2: 'fixed' of a recipe is empty"),
    "a date": (f"{NETWORK}  seed: 2026-01-01\n", "line 4: 'fixed.seed' is a date, 2026-01-01"),
    "a number that is none": (f"{NETWORK}  ci_width: .inf\n", "line 4: 'fixed.ci_width' is the number inf"),
    "a limit that is infinite": (
        f"{NETWORK}accept: {{forward: '< 1e999 ms'}}\n",
        "line 4: 'forward' of accept: '1e999 ms' is more",
    ),
    "a limit that is infinite in seconds": (f"{NETWORK}accept: {{forward: '< 1e308 h'}}\n", "'1e+308 h' is more than any"),
    "a time below 0": (
        f"{NETWORK}accept: {{forward: '<= -5 ms'}}\n",
        "'forward' of accept: <= -5 ms\nExpected: a limit above 0",
    ),
    "a time that is no time": (f"{NETWORK}accept: {{forward: '< 1e-999 ms'}}\n", "Expected: a limit above 0"),
    "more bits than any type has": (
        f"{NETWORK}  transform: [fold]\naccept: {{significant bits: '>= 60'}}\n",
        "line 5: 'significant bits' of accept: >= 60, and 53 are all that its type has",
    ),
    "more bits than a network's type has": (
        f"{NETWORK}accept: {{significant bits: '> 24'}}\n",
        "line 4: 'significant bits' of accept: > 24, and 24 are all that its type has (level network)",
    ),
    "more bits than a suite's type has": (
        f"{OPERATORS}  suite: transformer/gelu\n  dtype: bfloat16\naccept: {{significant bits: '>= 9'}}\n",
        "and 8 are all that its type has",
    ),
    "more bits than the type of one cell has": (
        f"{OPERATORS}  cases: [{{operator: Relu, inputs: [[4]]}}]\nmatrix: {{dtype: [float64, float32]}}\n"
        "accept: {significant bits: '>= 30'}\n",
        "24 are all that its type has (level operators, cell dtype=float32)",
    ),
    "a huge number": (f"{NETWORK}  seed: 0x{'f' * 5000}\n", "line 4: 'fixed.seed' is a whole number of more than 64 bits"),
    "a number out of range": (f"{NETWORK}limits: {{cell: {':'.join('1' * 300)}.5}}\n", "holds a value that cannot be read"),
    "a tag on something else": (f"{NETWORK}title: !!timestamp x\n", "holds a value that cannot be read"),
    "no YAML": ("level: [", "is no YAML"),
    "an alias within itself": (
        "level: network\nfixed: &a {network: digits-cnn, sizes: *a}\n",
        "an alias within what it stands for",
    ),
    "many aliases": (
        "a: &a [1,1,1,1,1,1,1,1,1,1]\n"
        + "".join(f"{n}: &{n} [{','.join([f'*{o}'] * 10)}]\n" for o, n in zip("abcde", "bcdef", strict=True)),
        "more than 200000 values",
    ),
    "an object of Python": ("level: !!python/object/apply:os.system ['true']\n", "is no YAML"),
    "a huge matrix": (
        f"{NETWORK}matrix: {{batch: {list(range(200))}, seed: {list(range(200))}}}\n",
        "has 40000 combinations",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_told_with_its_line(what: str, tmp_path: Path) -> None:
    text, expected = WRONG[what]
    file = tmp_path / "wrong.yaml"
    file.write_text(text)
    with pytest.raises(DeepBenchError) as found:
        load_experiment(file)
    assert expected in str(found.value)
    assert "wrong.yaml" in str(found.value)


CODE = {
    "an operator": "level: operators\nfixed: {suite: convnet/1d, kernels: 'mine.py:Gelu'}\n",
    "a framework": f"{NETWORK}  on: mine:Adapter\n",
    "an environment": f"{NETWORK}  on: torch@here\n",
    "packages": f"{NETWORK}  on: reference\nenvironments: {{old: {{requirements: [mine]}}}}\n",
    "a network": "level: network\nfixed: {network: {name: 'mine:make'}, on: torch}\n",
    "a suite": f"{OPERATORS}  suite: mine:suite\n",
    "a data set": f"{TRAINING}  on: torch\n  data: {{name: 'mine:data'}}\n",
    "an optimizer": f"{TRAINING}  on: torch\nmatrix:\n  optimizer: [sgd, 'mine:Rule']\n",
    "lines of a shell": f"{NETWORK}  on: torch\nslurm: {{setup: [module load openmpi]}}\n",
    "a communicator": "level: communication\nfixed: {collectives: allreduce, ranks: 2, over: 'mine:World'}\n",
    "a function of a suite": f"{OPERATORS}  suite: cases.toml\n",
}


@pytest.mark.parametrize("what", CODE)
def test_code_does_not_run_unless_it_may(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("mine.py").write_text("import pathlib; pathlib.Path('ran').touch()")
    Path("cases.toml").write_text("[[cases]]\noperator = 'mine:function'\ninputs = [[2]]\n")
    Path("recipe.yaml").write_text(CODE[what])
    with pytest.raises(InvalidArgument, match="runs code"):
        load_experiment("recipe.yaml")
    assert not Path("ran").exists()


def test_a_python_recipe_needs_consent(tmp_path: Path) -> None:
    file = tmp_path / "made.py"
    file.write_text(
        f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n"
        "fixed = {'network': 'digits-cnn'}\n"
        "def recipe():\n    return {'level': 'network', 'fixed': fixed, 'matrix': {'batch': [1, 2, 4]}}\n"
    )
    with pytest.raises(InvalidArgument, match="is a program"):
        load_experiment(file)
    assert not (tmp_path / "ran").exists()
    made = load_experiment(file, allow_code=True)
    assert (made.name, len(made.cells)) == ("made", 3)
    file.write_text("recipes = {}")
    with pytest.raises(InvalidArgument, match="makes no 'recipe'"):
        load_experiment(file, allow_code=True)
