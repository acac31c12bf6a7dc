/** The command line of `npm run simulate`. */
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { BROKEN_NAMES, type BrokenName } from "../fleet/faults/environment/broken-builds.ts";

export interface SimulateOptions {
  readonly first: number;
  readonly seeds: number;
  /** The end by the clock of the machine, instead of a number of seeds. */
  readonly minutes: number | null;
  /** The processes, which share the seeds. */
  readonly jobs: number;
  /** Every seed, every second one, and so on: the seeds of one process. */
  readonly stride: number;
  readonly broken: BrokenName | null;
  /** Of each story: that of the tests is 1. */
  readonly size: number;
  /** Stories of a few commands. */
  readonly brief: boolean;
  /** The file of a story, which alone is run. */
  readonly story: string | null;
  /** No faults. */
  readonly calm: boolean;
  readonly json: boolean;
  /** The file that receives the sums. */
  readonly record: string | null;
}

/** A larger story may need the time of the processor after which a run counts as stuck. */
const SIZE_MAX = 10;

export const SIMULATE_HELP = `npm run simulate -- [options]

Runs whole fleets with their agents on simulated time, with faults of the bus and the store, kills and power cuts, and judges each by the checker of
the fault run. One seed gives one history, which only a change of the code changes. A failing seed is cut to a short story, which is printed.

  --seeds N       the number of seeds (default 20)
  --minutes M     run new seeds for so many minutes of this machine instead
  --seed S        this seed alone; with --seeds or --minutes the first one (default 1)
  --jobs N        the number of processes (default: that of the cores)
  --stride N      of the seeds only each Nth one, in one process
  --size N        stories with N times the agents, each with N times the steps in N times the time (default 1, at most ${SIZE_MAX});
                  longer ones run more commands in a minute
  --brief         stories of a few commands, for thousands of seeds
  --story FILE    this story alone, as the JSON that a failing seed prints
  --broken NAME   a build without one safeguard: ${BROKEN_NAMES.slice(0, 6).join(", ")},
                  ${BROKEN_NAMES.slice(6).join(", ")}
  --calm          without faults: only the work of the agents
  --json          one JSON line for each seed
  --record FILE   write the sums, the commit and the machine to FILE, again every ten seconds; npm run bench:report shows such files
                  of test/simulation/results
  --help          this text

Examples:
  npm run simulate -- --seeds 1000 --brief
  npm run simulate -- --minutes 480 --seed 100000 --size 4
  npm run simulate -- --minutes 120 --size 6 --record test/simulation/results/2030-01-31.json
  npm run simulate -- --seed 42 --json

Exit code: 0, or 1 after a violation, or 2 for wrong options or a failure of the simulation itself, such as a seed that does not end.
`;

/** Returns null for --help. Throws with a one-line message for invalid arguments. */
export function readSimulateOptions(args: string[]): SimulateOptions | null {
  const { values } = parseArgs({
    args,
    options: {
      seeds: { type: "string" },
      minutes: { type: "string" },
      jobs: { type: "string" },
      stride: { type: "string", default: "1" },
      seed: { type: "string" },
      broken: { type: "string" },
      size: { type: "string", default: "1" },
      story: { type: "string" },
      brief: { type: "boolean", default: false },
      calm: { type: "boolean", default: false },
      json: { type: "boolean", default: false },
      record: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return null;
  const minutes = values.minutes === undefined ? null : Number(values.minutes);
  if (minutes !== null && !(minutes > 0))
    throw new Error(`--minutes takes a positive number, not ${values.minutes}`);
  const size = whole("--size", values.size);
  if (size > SIZE_MAX) throw new Error(`--size takes at most ${SIZE_MAX}, not ${size}`);
  const isOfSeed = values.seed !== undefined && values.seeds === undefined && minutes === null;
  const alone = isOfSeed || values.story !== undefined;
  return {
    first: whole("--seed", values.seed ?? "1"),
    seeds: alone ? 1 : whole("--seeds", values.seeds ?? "20"),
    minutes,
    jobs: whole("--jobs", values.jobs ?? String(availableParallelism())),
    stride: whole("--stride", values.stride),
    broken: values.broken === undefined ? null : brokenBuild(values.broken),
    size,
    brief: values.brief,
    story: values.story ?? null,
    calm: values.calm,
    json: values.json,
    record: values.record ?? null,
  };
}

/** The arguments that choose the story of a seed. */
export const storyArgs = ({ broken, size, brief, story, calm }: SimulateOptions): string[] => [
  ...(broken === null ? [] : ["--broken", broken]),
  ...(size === 1 ? [] : ["--size", String(size)]),
  ...(brief ? ["--brief"] : []),
  ...(story === null ? [] : ["--story", story]),
  ...(calm ? ["--calm"] : []),
];

function brokenBuild(given: string): BrokenName {
  const name = BROKEN_NAMES.find((one) => one === given);
  if (name !== undefined) return name;
  throw new Error(`--broken takes one of ${BROKEN_NAMES.join(", ")}, not ${given}`);
}

function whole(option: string, given: string): number {
  const number = Number(given);
  if (!Number.isSafeInteger(number) || number < 1)
    throw new Error(`${option} takes a whole number from 1 on, not ${given}`);
  return number;
}
