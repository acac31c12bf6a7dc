/** What `npm run faults` is asked for on its command line. */
import { parseArgs } from "node:util";
import { BROKEN_NAMES, type BrokenName } from "../environment/broken.ts";
import { FAULT_KINDS, type FaultKind } from "./plan.ts";

export const ROUNDS = ["alone", "small-disk", "several", "foundationdb"] as const;
export type RoundName = (typeof ROUNDS)[number];

export interface Options {
  /** For the faults of all rounds together. */
  readonly minutes: number;
  readonly seed: number;
  readonly json: string | null;
  readonly rounds: readonly RoundName[];
  readonly broken: BrokenName | null;
  readonly faults: readonly FaultKind[] | null;
  readonly keep: boolean;
}

function listed(names: readonly string[]): string {
  const lines = Array.from({ length: Math.ceil(names.length / 5) }, (_, i) =>
    names.slice(5 * i, 5 * i + 5).join(", "),
  );
  return lines.join(",\n                    ");
}

export const HELP = `npm run faults -- [options]

Runs real fleets, kills, pauses, cuts off and starves their parts while agents work, hand over to each other and are recovered, damages what they stored, and then
checks that nothing was lost, nothing was applied twice, nobody who lives lost a task, and everything else that shared/protocol/SPEC.md promises.

  --minutes N       time for the faults, over all rounds (default 2)
  --seed N          the plan of the faults and of the work follows from it (default: a new one, which is printed)
  --json FILE       write counts, faults and violations as JSON, too
  --rounds A,B      ${ROUNDS.join(", ")} (default: all that can run here)
  --faults A,B      only these kinds of faults (default: all that can happen here); kill_agents is also the deaths that takers, workers,
                    coordinators and watchdogs choose the moment of, and the mishaps of workers:
                    ${listed(FAULT_KINDS)}
  --broken NAME     run with one safeguard taken out, to see it caught:
                    ${listed(BROKEN_NAMES)}
  --keep            keep the evidence of rounds without violations, too
  --help            this text

Rounds: alone is one process with every service, small-disk the same on a disk that fills up, several is two of each service and a runner on one
embedded store, where bits of checkpoints are turned over, foundationdb the same on a FoundationDB server.

Exit code: 0, or 1 after a violation (the seed and the evidence are printed), or 2 when the run itself failed.
`;

/** null: help is asked for. Throws with one line that says what is wrong. */
export function readOptions(args: string[]): Options | null {
  const { values } = parseArgs({
    args,
    options: {
      minutes: { type: "string", default: "2" },
      seed: { type: "string" },
      json: { type: "string" },
      rounds: { type: "string" },
      broken: { type: "string" },
      faults: { type: "string" },
      keep: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return null;
  const minutes = Number(values.minutes);
  if (!(minutes > 0 && minutes <= 1_440))
    throw new Error(`--minutes takes a number up to 1440, not ${values.minutes}`);
  const seed = values.seed === undefined ? Math.floor(Math.random() * 1_000_000) : Number(values.seed);
  if (!Number.isSafeInteger(seed) || seed < 0)
    throw new Error(`--seed takes a whole number, not ${values.seed}`);
  return {
    minutes,
    seed,
    json: values.json ?? null,
    rounds: chosen("--rounds", values.rounds?.split(",") ?? ROUNDS, ROUNDS),
    broken: values.broken === undefined ? null : chosen("--broken", [values.broken], BROKEN_NAMES)[0]!,
    faults: values.faults === undefined ? null : chosen("--faults", values.faults.split(","), FAULT_KINDS),
    keep: values.keep,
  };
}

function chosen<T extends string>(option: string, names: readonly string[], among: readonly T[]): T[] {
  const unknown = names.find((name) => !(among as readonly string[]).includes(name));
  if (unknown !== undefined)
    throw new Error(`${option} does not know ${unknown}; there are ${among.join(", ")}`);
  return names as T[];
}

/** The command that repeats a run. */
export function commandFor({ minutes, seed, rounds, broken, faults }: Options): string {
  const parts = [`--minutes ${minutes}`, `--seed ${seed}`, `--rounds ${rounds.join(",")}`];
  if (faults !== null) parts.push(`--faults ${faults.join(",")}`);
  if (broken !== null) parts.push(`--broken ${broken}`);
  return `npm run faults -- ${parts.join(" ")}`;
}
