/** Puts the processes of the simulated machine into `child_process.spawn` and `process.kill`. */
import childProcess from "node:child_process";
import { EventEmitter } from "node:events";
import { syncBuiltinESMExports } from "node:module";
import { currentProcess } from "../time/processes.ts";
import { activeMachine, type SimulatedMachine } from "./machine.ts";
import type { ProgramEnd } from "./process-table.ts";
import { replaceCall } from "./replace-call.ts";

/** As far as Fleet uses a child process that it leaves alone. */
class SimulatedChild extends EventEmitter {
  readonly pid: number;

  constructor(pid: number, exited: Promise<ProgramEnd>) {
    super();
    this.pid = pid;
    const parent = currentProcess();
    const seen = parent === undefined ? exited : parent.arrival(exited);
    void seen.then(({ code, signal }) => this.emit("exit", code, signal));
  }

  unref(): void {}
}

function spawned(machine: SimulatedMachine, args: unknown[]): SimulatedChild {
  const [, own, options] = args as [string, readonly string[], { readonly env?: Record<string, string> }];
  const { pid, exited } = machine.processes.start(
    machine.nextName(),
    machine.programOf(own),
    options.env ?? {},
  );
  return new SimulatedChild(pid, exited);
}

/** Once in a process, after the traps: these forbid to start a process. */
export function replaceProcesses(): void {
  replaceCall(childProcess, "spawn", (args) => {
    const machine = activeMachine();
    return machine && (() => spawned(machine, args));
  });
  replaceCall(process, "kill", ([pid, signal]) => {
    const processes = activeMachine()?.processes;
    return processes && (() => processes.signal(pid as number, (signal ?? "SIGTERM") as NodeJS.Signals));
  });
  syncBuiltinESMExports();
}
