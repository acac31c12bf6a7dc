/**
 * From how a process ended to the class of failure that recovery decides by: pure data and one function over it. What the agent itself
 * said comes first, because an exit code is a poor word; then what the runner knows; then the code or the signal.
 */
import { constants } from "node:os";
import { EXIT_CLASSES, type FailureClass } from "../../shared/protocol/exit-report.ts";
import type { ExitWord } from "../../shared/protocol/runner-settings.ts";
import type { Exit } from "./launchers/launcher.ts";

/** A signal that is not here is a crash, also SIGTERM: whoever sent it did not wait for the work. */
export const SIGNAL_CLASSES: Readonly<Partial<Record<NodeJS.Signals, FailureClass>>> = {
  SIGALRM: "timeout",
  SIGPROF: "timeout",
  SIGVTALRM: "timeout",
  SIGXCPU: "timeout",
};

/** A shell says that a signal ended its program by a code above this one. */
const SIGNAL_CODES = 128;

/** Why the runner itself ended the agent. */
export type StopReason = "runner_stopped" | "run_time";

export interface ExitContext {
  readonly word: ExitWord | undefined;
  readonly stopped: StopReason | undefined;
  /** Of the agent type's settings. */
  readonly codes: Readonly<Record<string, FailureClass>>;
}

export function classOf(exit: Exit, { word, stopped, codes }: ExitContext): FailureClass {
  if (exit.problem !== null) return "not_started";
  if (word?.class !== undefined) return word.class;
  if (stopped === "run_time") return "timeout";
  if (exit.lost) return "crash";
  const own = exit.code === null ? undefined : codes[String(exit.code)];
  if (own !== undefined) return own;
  const signal = signalOf(exit);
  if (signal === "SIGKILL" && exit.outOfMemory) return "out_of_memory";
  if (signal !== null) return SIGNAL_CLASSES[signal] ?? "crash";
  return EXIT_CLASSES[exit.code ?? 1] ?? "crash";
}

/** The signal that ended the agent, also when a shell around it turned that into a code. */
export function signalOf({ code, signal }: Pick<Exit, "code" | "signal">): NodeJS.Signals | null {
  if (signal !== null) return signal as NodeJS.Signals;
  const number = (code ?? 0) - SIGNAL_CODES;
  const found = Object.entries(constants.signals).find(([, value]) => value === number);
  return (found?.[0] as NodeJS.Signals | undefined) ?? null;
}

/** In words, for the report; undefined when class and code say it all. */
export function detailsOf(exit: Exit, { word, stopped }: ExitContext): string | undefined {
  const facts = [
    word?.details,
    exit.problem === null ? undefined : `could not be started: ${exit.problem}`,
    stopped === "runner_stopped" ? "the runner was stopped and ended it" : undefined,
    stopped === "run_time" ? "it ran longer than its type may" : undefined,
    exit.lost ? "the process that watched it is gone too, so nobody knows how it ended" : undefined,
  ].filter((fact) => fact !== undefined);
  return facts.length === 0 ? undefined : facts.join("; ");
}
