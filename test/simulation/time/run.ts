/**
 * One simulation: its schedule, its random numbers and its end. While one is active, the replaced globals (globals.ts) take time and
 * randomness from it; at any other time they are the real ones.
 */
import timers from "node:timers";
import { seededRandom } from "../../load/workload.ts";
import { Schedule } from "./schedule.ts";
import { watchRun } from "./watchdog.ts";

/** Kept before it is replaced. */
const realTurn = timers.setImmediate;

/** The seeded sources; each has its own sequence, so that one more call of one does not shift the others. */
export interface Sources {
  /** For `Math.random`. */
  readonly random: () => number;
  /** For the functions of `node:crypto`, as 32-bit numbers. */
  readonly word: () => number;
  /** The number of words so far. */
  readonly words: () => number;
}

export interface ActiveSimulation extends Sources {
  readonly schedule: Schedule;
  /** Ends the simulation with an error, which no code can catch. */
  fail(error: Error): void;
  /** The last lines of what `main` records, for the report about a run that does not end. */
  lastLines: () => readonly string[];
}

let active: ActiveSimulation | undefined;

export const activeSimulation = (): ActiveSimulation | undefined => active;

export interface SimulationLimits {
  /** The simulated time at which the run counts as stuck. */
  readonly limitMs: number;
  /** The events after which the run counts as stuck. */
  readonly eventsMax: number;
  /** The time of the processor after which the real process ends, with a report. Default: two minutes. */
  readonly processorMs?: number;
}

const PROCESSOR_MS = 120_000;
const EVENTS_SHOWN = 20;

export interface SimulationRun<T> {
  readonly value: T;
  /** The simulated time in milliseconds. */
  readonly simulatedMs: number;
  readonly events: number;
}

/** The real turns of the event loop that are requested together. Between two of them all promises settle. */
const TURNS = 64;

/** Describes a run that does not end. */
function reportOf(seed: number, { schedule, lastLines }: ActiveSimulation): string {
  const pending = schedule
    .pending(EVENTS_SHOWN)
    .map(({ due, process }) => `  in ${(due - schedule.now).toFixed(3)} ms: ${process?.name ?? "outside"}`);
  const head = `seed ${seed} at ${schedule.elapsed.toFixed(3)} simulated ms after ${schedule.fired} events`;
  return [head, "pending timers", ...pending, "last lines", ...lastLines().map((one) => `  ${one}`)].join(
    "\n",
  );
}

/** Runs `main` on seeded time. One run at a time. Rejects when `main` does, after an uncaught error, a forbidden call, or a limit. */
export async function simulate<T>(
  seed: number,
  { limitMs, eventsMax, processorMs = PROCESSOR_MS }: SimulationLimits,
  main: () => Promise<T>,
): Promise<SimulationRun<T>> {
  if (active !== undefined) throw new Error("another simulation is active");
  const { promise: ended, resolve, reject } = Promise.withResolvers<T>();
  let isOver = false;
  const end = (settle: () => void): void => {
    isOver = true;
    settle();
  };
  const fail = (error: Error): void => end(() => reject(error));
  const mixed = seededRandom(seed);
  const [forMath, forCrypto] = [mixed(), mixed()].map((one) => Math.floor(one * 2 ** 32));
  const schedule = new Schedule();
  const words = seededRandom(forCrypto!);
  let drawn = 0;
  const simulation: ActiveSimulation = {
    schedule,
    random: seededRandom(forMath!),
    word: () => {
      drawn += 1;
      return Math.floor(words() * 2 ** 32);
    },
    words: () => drawn,
    fail,
    lastLines: () => [],
  };
  const report = (): string => reportOf(seed, simulation);
  const stuck = (limit: string): void => fail(new Error(`not finished after ${limit}\n${report()}`));
  const unwatch = watchRun(processorMs, report);
  const uncaught = (error: unknown): void => fail(error instanceof Error ? error : new Error(String(error)));
  process.on("unhandledRejection", uncaught);
  active = simulation;
  let idle = 0;
  const turn = (): void => {
    if (isOver) return;
    if (schedule.elapsed > limitMs) stuck(`${limitMs} simulated ms`);
    else if (schedule.fired > eventsMax) stuck(`${eventsMax} events`);
    else {
      const event = schedule.next();
      if (event === undefined && ++idle > TURNS) fail(new Error(`nothing is left to happen\n${report()}`));
      try {
        event?.fire();
      } catch (error) {
        uncaught(error);
      }
    }
  };
  const turns = (): void => {
    if (isOver) return;
    for (let n = 0; n < TURNS; n += 1) realTurn(turn);
    realTurn(turns);
  };
  try {
    main().then((value) => end(() => resolve(value)), uncaught);
    turns();
    const value = await ended;
    return { value, simulatedMs: schedule.elapsed, events: schedule.fired };
  } finally {
    // What still runs comes to rest at its next timer, which never fires.
    await new Promise((resolve) => realTurn(() => realTurn(resolve)));
    active = undefined;
    unwatch();
    process.off("unhandledRejection", uncaught);
  }
}
