/**
 * The failure class of an ended process, which decides the recovery action: pure data and one function over it. The agent's own exit note
 * comes first, because an exit code says little; then the runner's own reason to stop it; then the exit code or the signal.
 */
import { constants } from "node:os";
import { EXIT_CLASSES, type FailureClass } from "../../../shared/protocol/exit-report.ts";
import { NOT_STARTED_PREFIX } from "../../../shared/protocol/recovery-states.ts";
import type { ExitWord } from "../../../shared/protocol/runner-settings.ts";
import type { Exit } from "../launchers/launcher.ts";

/** Any other signal is a crash, including SIGTERM: its sender did not wait for the work. */
export const SIGNAL_CLASSES: Readonly<Partial<Record<NodeJS.Signals, FailureClass>>> = {
  SIGALRM: "timeout",
  SIGPROF: "timeout",
  SIGVTALRM: "timeout",
  SIGXCPU: "timeout",
};

/** A shell reports signal n as exit code 128 + n. */
const SIGNAL_CODES = 128;

/** The runner's reason to end the agent. */
export type StopReason = "runner_stopped" | "run_time";

export interface ExitContext {
  /** The agent's own report about its end. */
  readonly note: ExitWord | undefined;
  readonly stopped: StopReason | undefined;
  /** The exit codes with a class of their own, from the settings of the agent type. */
  readonly codes: Readonly<Record<string, FailureClass>>;
}

export function classOf(exit: Exit, { note, stopped, codes }: ExitContext): FailureClass {
  if (exit.problem !== null) return "not_started";
  if (note?.class !== undefined) return note.class;
  if (stopped === "run_time") return "timeout";
  if (exit.lost) return "crash";
  const own = exit.code === null ? undefined : codes[String(exit.code)];
  if (own !== undefined) return own;
  const signal = signalOf(exit);
  if (signal === "SIGKILL" && exit.outOfMemory) return "out_of_memory";
  if (signal !== null) return SIGNAL_CLASSES[signal] ?? "crash";
  return EXIT_CLASSES[exit.code ?? 1] ?? "crash";
}

/** The signal that ended the agent, even if a shell around it turned the signal into an exit code. */
export function signalOf({ code, signal }: Pick<Exit, "code" | "signal">): NodeJS.Signals | null {
  if (signal !== null) return signal as NodeJS.Signals;
  const number = (code ?? 0) - SIGNAL_CODES;
  const found = Object.entries(constants.signals).find(([, value]) => value === number);
  return (found?.[0] as NodeJS.Signals | undefined) ?? null;
}

/** By the convention of shells and env(1), which start a program for the agent. */
const SHELL_PROBLEMS: Readonly<Record<number, string>> = {
  126: "its program, or one that it starts, may not be executed (exit code 126)",
  127: "its program, or one that it starts, was not found (exit code 127)",
};

/** The details for the exit report; undefined if class and code say everything. */
export function detailsOf(exit: Exit, context: ExitContext): string | undefined {
  const { note, stopped } = context;
  const shellProblem = classOf(exit, context) === "not_started" ? SHELL_PROBLEMS[exit.code ?? 0] : undefined;
  const problem = exit.problem ?? shellProblem;
  const facts = [
    note?.details,
    problem === undefined ? undefined : `${NOT_STARTED_PREFIX}${problem}`,
    stopped === "runner_stopped" ? "the runner was stopped and ended it" : undefined,
    stopped === "run_time" ? "it exceeded the run_ms of its agent type" : undefined,
    exit.lost ? "the process that watched it ended as well, so its exit is unknown" : undefined,
  ].filter((fact) => fact !== undefined);
  return facts.length === 0 ? undefined : facts.join("; ");
}
