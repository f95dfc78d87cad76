"""A simulated node through other people's eyes: nvidia-ml-py, gpustat and nvitop.

    python others_eyes.py path/to/gpulet-sim

Wants nvidia-ml-py, gpustat and nvitop in the Python that runs it. For each node it starts itself again under
`gpulet-sim exec`, reads every GPU, compares with the hardware's truth (`gpulet-sim state -o json`), and lets the two
programs show it. Ends with a line such as `12 passed, 0 failed`, and with 1 if something failed.
"""

import json
import os
import subprocess
import sys
import traceback
from pathlib import Path

HERE = Path(__file__).resolve()
NODES = ["dgx-h100", "l40s-4x", str(HERE.parent / "nodes" / "every-board.yaml"), "cpu-only"]

# Getters of one value without further arguments. "Not supported" is an answer; a missing symbol or nonsense is not.
GETTERS = """
    Name UUID Serial MinorNumber Index PciInfo PciInfo_v3 Brand Architecture CudaComputeCapability VbiosVersion
    InforomImageVersion BoardId BoardPartNumber MultiGpuBoard NumGpuCores ModuleId NumaNodeId GspFirmwareVersion
    MemoryInfo BAR1MemoryInfo MemoryBusWidth UtilizationRates EncoderUtilization DecoderUtilization JpgUtilization
    OfaUtilization PowerUsage PowerManagementLimit PowerManagementLimitConstraints PowerManagementDefaultLimit
    EnforcedPowerLimit PowerManagementMode PowerSource TotalEnergyConsumption MarginTemperature PerformanceState
    PowerState CurrentClocksEventReasons CurrentClocksThrottleReasons SupportedClocksEventReasons
    SupportedMemoryClocks AdaptiveClockInfoStatus NumFans FanSpeed CurrPcieLinkGeneration MaxPcieLinkGeneration
    GpuMaxPcieLinkGeneration CurrPcieLinkWidth MaxPcieLinkWidth PcieReplayCounter PcieSpeed PcieLinkMaxSpeed BusType
    EccMode DefaultEccMode RetiredPagesPendingStatus RemappedRows RowRemapperHistogram ComputeMode PersistenceMode
    DisplayMode DisplayActive DriverModel VirtualizationMode AccountingMode AccountingPids AccountingBufferSize
    ComputeRunningProcesses GraphicsRunningProcesses MPSComputeRunningProcesses MigMode MaxMigDeviceCount
    SupportedEventTypes
""".split()


class Checks:
    """Counts what held and what did not."""

    def __init__(self):
        self.passed = self.failed = 0

    def run(self, name, check, *arguments):
        try:
            check(*arguments)
        except Exception:  # whatever goes wrong is a failure of this check only
            self.failed += 1
            print(f"FAILED {name}\n{traceback.format_exc()}")
        else:
            self.passed += 1
            print(f"ok     {name}")


def equal(actual, expected, what):
    if actual != expected:
        raise AssertionError(f"{what}: {actual!r}, expected {expected!r}")


def sim(*arguments):
    result = subprocess.run([os.environ["GPULET_SIM"], *arguments], capture_output=True, text=True, check=True)
    return result.stdout


def truth():
    return json.loads(sim("state", "-o", "json"))


def every_getter_answers():
    import pynvml

    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        answered = 0
        for getter in GETTERS:
            try:
                getattr(pynvml, "nvmlDeviceGet" + getter)(handle)
                answered += 1
            except pynvml.NVMLError_NotSupported:
                pass
        if answered < len(GETTERS) // 2:
            raise AssertionError(f"GPU {index} answers {answered} of {len(GETTERS)} only")


def values_are_the_hardwares():
    import pynvml

    state = truth()
    equal(pynvml.nvmlSystemGetDriverVersion(), state["driver"]["version"], "driver")
    equal(pynvml.nvmlSystemGetNVMLVersion(), state["driver"]["nvml_version"], "NVML")
    equal(pynvml.nvmlSystemGetCudaDriverVersion_v2(), state["driver"]["cuda_version"], "CUDA")
    equal(pynvml.nvmlDeviceGetCount(), len(state["gpus"]), "count")
    for index, gpu in enumerate(state["gpus"]):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        board, now, count, identity = gpu["board"], gpu["now"], gpu["count"], gpu["identity"]
        equal(pynvml.nvmlDeviceGetName(handle), board["name"], "name")
        equal(pynvml.nvmlDeviceGetUUID(handle), identity["uuid"], "UUID")
        pci = pynvml.nvmlDeviceGetPciInfo(handle)
        equal((pci.domain, pci.bus, pci.device), tuple(identity["pci_" + k] for k in ("domain", "bus", "device")), "PCI")
        equal(pynvml.nvmlDeviceGetPciInfo(pynvml.nvmlDeviceGetHandleByPciBusId(pci.busId)).bus, pci.bus, "by bus id")
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
        equal((memory.total, memory.used), (board["memory_bytes"], now["memory_used_bytes"]), "memory")
        equal(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU), now["temperature_c"], "temperature")
        equal(pynvml.nvmlDeviceGetTemperatureV(handle, pynvml.NVML_TEMPERATURE_GPU), now["temperature_c"], "temperature V")
        equal(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle), count["energy_mj"], "energy")
        equal(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM), now["clocks_mhz"][1], "SM clock")
        equal(pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_MEM), board["max_clocks_mhz"][2], "memory clock")
        if not (gpu["mig"] and gpu["mig"]["mode"][0]):
            rates = pynvml.nvmlDeviceGetUtilizationRates(handle)
            equal([rates.gpu, rates.memory], now["utilization"][:2], "utilisation")
        fields = pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, pynvml.NVML_FI_DEV_POWER_INSTANT])
        equal((fields[0].value.ullVal, fields[1].value.uiVal), (count["energy_mj"], now["power_instant_mw"]), "fields")
        for number, link in enumerate(gpu["nvlinks"]):
            equal(pynvml.nvmlDeviceGetNvLinkState(handle, number), int(link["up"]), f"link {number}")
            if link["up"]:
                equal(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, number), link["remote_type"], f"end of link {number}")


def mig_is_the_hardwares():
    import pynvml

    for index, gpu in enumerate(truth()["gpus"]):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        if not (gpu["mig"] and gpu["mig"]["mode"][0]):
            continue
        found = set()
        for number in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            try:
                device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
            except pynvml.NVMLError_NotFound:
                continue
            found.add((pynvml.nvmlDeviceGetGpuInstanceId(device), pynvml.nvmlDeviceGetComputeInstanceId(device), pynvml.nvmlDeviceGetUUID(device)))
            if " MIG " not in pynvml.nvmlDeviceGetName(device):
                raise AssertionError(pynvml.nvmlDeviceGetName(device))
            if pynvml.nvmlDeviceGetAttributes(device).memorySizeMB << 20 != pynvml.nvmlDeviceGetMemoryInfo(device).total:
                raise AssertionError("memory of attributes and of the device differ")
        expected = {(gi["id"], ci["id"], ci["uuid"]) for gi in gpu["mig"]["instances"] for ci in gi["compute"]}
        equal(found, expected, f"MIG devices of GPU {index}")


def processes_are_seen():
    import pynvml

    for index, gpu in enumerate(truth()["gpus"]):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        seen = {(p.pid, p.usedGpuMemory) for p in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)}
        expected = {(p["pid"], p["memory_bytes"]) for p in gpu["processes"] if p["kind"] == "compute"}
        equal(seen, expected, f"processes of GPU {index}")
    if os.getpid() not in {p["pid"] for gpu in truth()["gpus"] for p in gpu["processes"]}:
        raise AssertionError("this process holds no GPU")


def gpustat_shows_it():
    run = subprocess.run([sys.executable, "-m", "gpustat", "--json"], capture_output=True, text=True, check=True)
    shown, state = json.loads(run.stdout), truth()
    equal([gpu["uuid"] for gpu in shown["gpus"]], [gpu["identity"]["uuid"] for gpu in state["gpus"]], "GPUs")
    for gpu, true in zip(shown["gpus"], state["gpus"]):
        equal(gpu["name"], true["board"]["name"], "name")
        equal(gpu["temperature.gpu"], true["now"]["temperature_c"], "temperature")
    pids = {process["pid"] for gpu in shown["gpus"] for process in gpu["processes"] or []}
    if os.getpid() not in pids:
        raise AssertionError(f"this process ({os.getpid()}) is not among {pids}")
    run = subprocess.run([sys.executable, "-m", "gpustat", "--no-color"], capture_output=True, text=True, check=True)
    equal(len(run.stdout.strip().splitlines()), 1 + len(state["gpus"]), "lines")


def nvitop_shows_it():
    run = subprocess.run([sys.executable, "-m", "nvitop", "--once", "--no-unicode"], capture_output=True, text=True, check=True)
    if run.stderr.strip():
        raise AssertionError(run.stderr)
    for true in truth()["gpus"]:
        bus = "{pci_domain:08X}:{pci_bus:02X}:{pci_device:02X}.0".format(**true["identity"])
        if bus not in run.stdout:
            raise AssertionError(f"no {bus} in\n{run.stdout}")
    if str(os.getpid()) not in run.stdout:
        raise AssertionError(f"this process ({os.getpid()}) is not in\n{run.stdout}")


def nothing_is_there():
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_LibraryNotFound:
        return
    raise AssertionError("a node without a driver has a library")


def hold_a_gpu():
    """Takes the first GPU that is not in MIG mode, so that programs which look a process up find a living one."""
    state = truth()
    gpu = next(i for i, gpu in enumerate(state["gpus"]) if not (gpu["mig"] and gpu["mig"]["mode"][0]) and not gpu["processes"])
    sim("hold", str(gpu), "--pid", str(os.getpid()), "--memory", "2GiB", "--name", sys.executable)


def inside(node):
    checks, name = Checks(), Path(node).stem
    if not truth()["gpus"]:
        checks.run(f"{name}: nvidia-ml-py finds no library", nothing_is_there)
        return checks
    import pynvml

    # Nothing moves while it is compared.
    sim("clock", "pause")
    hold_a_gpu()
    pynvml.nvmlInit()
    for what, check in [
        ("nvidia-ml-py: every getter answers", every_getter_answers),
        ("nvidia-ml-py: values are the hardware's", values_are_the_hardwares),
        ("nvidia-ml-py: MIG devices are the hardware's", mig_is_the_hardwares),
        ("nvidia-ml-py: processes are seen", processes_are_seen),
        ("gpustat shows GPUs and processes", gpustat_shows_it),
        ("nvitop shows GPUs and processes", nvitop_shows_it),
    ]:
        checks.run(f"{name}: {what}", check)
    pynvml.nvmlShutdown()
    return checks


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--inside":
        checks = inside(sys.argv[2])
        Path(sys.argv[3]).write_text(f"{checks.passed} {checks.failed}")
        return 0
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 64
    program = str(Path(sys.argv[1]).resolve())
    passed = failed = 0
    for node in NODES:
        report = Path(os.environ.get("TMPDIR", "/tmp")) / f"others-eyes-{os.getpid()}"
        environment = {**os.environ, "GPULET_SIM": program}
        command = [program, "exec", node, "--", sys.executable, str(HERE), "--inside", node, str(report)]
        run = subprocess.run(command, env=environment)
        if run.returncode == 0 and report.exists():
            more, worse = map(int, report.read_text().split())
            passed, failed = passed + more, failed + worse
        else:
            print(f"FAILED {node}: it did not run ({run.returncode})")
            failed += 1
        report.unlink(missing_ok=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
