# SPDX-License-Identifier: Apache-2.0
# tests/bench/gpu/peers.py: training by PyTorch, in processes that prepare while other steps run and then wait.
"""A peer compiles its model and warms up, creates a file to show that it is ready, and waits for a line. Then it measures,
and prints the figure in its last line."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

START = """
import sys, time, torch
device = "cuda" if torch.cuda.is_available() else "cpu"
ready, small = sys.argv[1], sys.argv[2] == "small"
def wait_for_all():
    if device == "cuda":
        torch.cuda.synchronize()
def wait_for_turn():
    wait_for_all()
    open(ready, "w").close()
    sys.stdin.readline()
"""

# Seconds of a step.
MNIST = START + """
mode, batch = sys.argv[3], 32
rows = 640 if small else 60000
model = torch.nn.Sequential(torch.nn.Linear(784, 500), torch.nn.ReLU(), torch.nn.Linear(500, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss_of = torch.nn.CrossEntropyLoss()
x, y = torch.rand(rows, 784, device=device), torch.randint(10, (rows,), device=device)
forward = lambda x, y: loss_of(model(x), y)
if mode == "compiled":
    forward = torch.compile(forward, mode="reduce-overhead")
count = rows // batch
def epoch():
    for i in range(count):
        optimizer.zero_grad()
        forward(x[i * batch:i * batch + batch], y[i * batch:i * batch + batch]).backward()
        optimizer.step()
    wait_for_all()
epoch()
wait_for_turn()
best = 1e9
for _ in range(5):
    start = time.perf_counter()
    epoch()
    best = min(best, (time.perf_counter() - start) / count)
print(best)
"""

# Tokens per second. The model of yoke/models.h: pre-norm, GELU, learned positions, an output layer that shares the
# embedding, no biases.
GPT = START + """
from torch import nn
from torch.nn import functional as F
half = sys.argv[3] == "bf16"
torch.set_float32_matmul_precision("highest")
layers, heads, width, context, batch, symbols = (1, 2, 32, 16, 2, 65) if small else (12, 12, 768, 1024, 8, 65)
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)
    def forward(self, x):
        parts = self.qkv(self.first(x)).view(batch, context, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, context, width))
        return x + self.down(F.gelu(self.up(self.second(x))))
class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.symbols, self.positions = nn.Embedding(symbols, width), nn.Embedding(context, width)
        self.layers = nn.Sequential(*[Layer() for _ in range(layers)])
        self.last = nn.LayerNorm(width, bias=False)
    def forward(self, x, y):
        hidden = self.layers(self.symbols(x) + self.positions.weight)
        logits = F.linear(self.last(hidden), self.symbols.weight)
        return F.cross_entropy(logits.view(-1, symbols).float(), y.reshape(-1))
model = Gpt().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
run = torch.compile(model)
data = torch.randint(symbols, (batch, context + 1), device=device)
def step():
    optimizer.zero_grad()
    with torch.autocast(device, torch.bfloat16, enabled=half):
        loss = run(data[:, :-1], data[:, 1:])
    loss.backward()
    optimizer.step()
for _ in range(5):
    step()
wait_for_turn()
start = time.perf_counter()
for _ in range(15):
    step()
wait_for_all()
print(15 * batch * context / (time.perf_counter() - start))
"""


def stop(process, first=signal.SIGKILL):
    """Ends the group of processes that the process leads. `first` lets it report before it is killed."""
    for number, seconds in ((first, 10), (signal.SIGKILL, 10)):
        try:
            os.killpg(process.pid, number)
            process.wait(seconds)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass


class Peer:
    """One process of PyTorch. Its output goes to a file, so that it cannot block."""

    def __init__(self, python, script, words, small):
        self.folder = tempfile.TemporaryDirectory()
        self.ready = pathlib.Path(self.folder.name) / "ready"
        self.output = pathlib.Path(self.folder.name) / "output"
        self.start = time.monotonic()
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen([python, "-c", script, str(self.ready), "small" if small else "full", *words],
                                            stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True)

    def wait_until_ready(self, deadline):
        while self.process.poll() is None and not self.ready.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        return self.ready.exists()

    def measure(self, deadline):
        """The figure, or None and the reason."""
        if not self.ready.exists():
            seconds = time.monotonic() - self.start
            ended = self.process.poll() is not None
            return None, "PyTorch failed: " + self.last_line() if ended else f"PyTorch was not ready after {seconds:.0f} s"
        try:
            self.process.stdin.write(b"go\n")
            self.process.stdin.close()
            self.process.wait(max(deadline - time.monotonic(), 0.1))
            return float(self.output.read_text(errors="replace").strip().splitlines()[-1]), ""
        except subprocess.TimeoutExpired:
            return None, "PyTorch did not finish in the time of this step"
        except (OSError, ValueError, IndexError):
            return None, "PyTorch failed: " + self.last_line()

    def last_line(self):
        """The last line that names an error, or else the last line."""
        lines = self.output.read_text(errors="replace").strip().splitlines()
        return next((line for line in reversed(lines) if "Error: " in line),
                    lines[-1] if lines else f"exit status {self.process.poll()}")

    def close(self):
        stop(self.process)
        self.folder.cleanup()


def find_python(small):
    """A Python whose PyTorch can use the GPU (or not, if `small`), and the versions; otherwise None and why."""
    check = "import torch; print('PyTorch', torch.__version__, 'with cuDNN', torch.backends.cudnn.version())"
    check += "" if small else "; assert torch.cuda.is_available(), 'PyTorch cannot use the GPU'"
    why = ""
    for python in (os.environ.get("YOKE_PEER_PYTHON"), sys.executable, "python3"):
        if python and shutil.which(python):
            try:
                probe = subprocess.run([python, "-c", check], capture_output=True, text=True, check=False, timeout=90)
            except (OSError, subprocess.TimeoutExpired) as error:
                why = why or str(error)
                continue
            if probe.returncode == 0:
                return python, probe.stdout.strip()
            why = why or (probe.stderr.strip().splitlines() or ["exit status " + str(probe.returncode)])[-1]
    return None, f"not compared: {why}; set YOKE_PEER_PYTHON"
