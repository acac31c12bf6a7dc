// The command line of the soak.

import { parseArgs } from "node:util";
import { LEAKS, type Leak } from "./programs/leaks.ts";

export interface SoakOptions {
  readonly minutes: number;
  /** Commands per second. */
  readonly rate: number;
  /** Seconds between two samples. */
  readonly every: number;
  /** The minutes whose samples are not judged. */
  readonly warmUp: number;
  /** The services as processes of their own, in place of a standalone fleet. */
  readonly services: boolean;
  /** A process that leaks beside the others, which the report must name. */
  readonly leak: Leak | null;
  /** The file for the samples and the verdicts as JSON. */
  readonly json: string | null;
}

const DEFAULTS = { minutes: 60, rate: 10, every: 60 } as const;
/** The samples that are judged are at least as many. */
export const SAMPLES_MIN = 8;
/** A short run takes so many, more often than each minute. */
const SAMPLES_WANTED = 20;
/** Memory, duplicate windows and the lists of agents take this long to reach their size, if the run is long enough. */
const WARM_UP_MINUTES = 15;
const WARM_UP_SHARE = 0.4;

export const SOAK_HELP = `npm run soak -- [options]

Runs a fleet under steady load with retention on, measures the memory, handles, files, streams and store of every process, and reports
whether each stays flat. Agents create, update, hand off, fall silent and are recovered, and finalize; readers search; people follow the
events over HTTP.

  --hours N      how long (default: 1)
  --minutes N    the same in minutes
  --rate N       commands per second (default: ${DEFAULTS.rate})
  --services     the services as processes of their own, in place of a standalone fleet
  --every N      seconds between two samples (default: ${DEFAULTS.every}, less in a run of less than half an hour)
  --warm-up N    minutes at the start that are not judged (default: ${WARM_UP_MINUTES}, or ${100 * WARM_UP_SHARE} % of a shorter run)
  --leak KIND    also runs a process that leaks ${LEAKS.join(" or ")}, which the report must name
  --json FILE    also writes all samples and verdicts as JSON
  --help         this text

Exit codes: 0 every measure is flat, 1 a measure grows, 2 the run failed or its load was not steady, 3 no measure grows, but the run was too
short to decide about some, 130 interrupted; the report is then about the samples so far.

Examples:
  npm run soak -- --hours 8 --json soak.json
  npm run soak -- --minutes 30 --rate 5 --services
  npm run soak -- --minutes 2 --every 2 --leak memory     # exit code 1
`;

/** Returns null for --help; throws with a one-line message for invalid arguments. */
export function readSoakOptions(args: string[]): SoakOptions | null {
  const { values } = parseArgs({
    args,
    options: {
      hours: { type: "string" },
      minutes: { type: "string" },
      rate: { type: "string" },
      every: { type: "string" },
      "warm-up": { type: "string" },
      services: { type: "boolean", default: false },
      leak: { type: "string" },
      json: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return null;
  if (values.hours !== undefined && values.minutes !== undefined)
    throw new Error("give --hours or --minutes, not both");
  const hours = positive("--hours", values.hours);
  const minutes =
    hours === undefined ? (positive("--minutes", values.minutes) ?? DEFAULTS.minutes) : 60 * hours;
  const warmUp =
    positive("--warm-up", values["warm-up"]) ?? Math.min(WARM_UP_MINUTES, WARM_UP_SHARE * minutes);
  if (warmUp >= minutes) throw new Error("--warm-up must be shorter than the run");
  const judgedSeconds = 60 * (minutes - warmUp);
  const every = positive("--every", values.every) ?? Math.min(DEFAULTS.every, judgedSeconds / SAMPLES_WANTED);
  if (judgedSeconds < SAMPLES_MIN * every)
    throw new Error(`the run must have time for ${SAMPLES_MIN} samples after its warm-up; lower --every`);
  return {
    minutes,
    warmUp,
    rate: positive("--rate", values.rate) ?? DEFAULTS.rate,
    every,
    services: values.services,
    leak: leakOf(values.leak),
    json: values.json ?? null,
  };
}

function positive(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const number = Number(text);
  if (Number.isFinite(number) && number > 0) return number;
  throw new Error(`${name} must be a number above 0; got ${JSON.stringify(text)}`);
}

function leakOf(name: string | undefined): Leak | null {
  if (name === undefined) return null;
  const known = LEAKS.find((one) => one === name);
  if (known === undefined) throw new Error(`unknown leak ${name}; the leaks are ${LEAKS.join(", ")}`);
  return known;
}
