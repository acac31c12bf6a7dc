/** The command line of `npm run faults`. */
import { parseArgs } from "node:util";
import { BROKEN_NAMES, type BrokenName } from "../environment/broken-builds.ts";
import { FAULT_KINDS, type FaultKind } from "./plan.ts";

export const ROUNDS = [
  "alone",
  "small-disk",
  "several",
  "retention",
  "cluster",
  "upgrade",
  "foundationdb",
] as const;
export type RoundName = (typeof ROUNDS)[number];

export interface Options {
  /** The duration of the faults of all rounds together. */
  readonly minutes: number;
  readonly seed: number;
  readonly json: string | null;
  readonly rounds: readonly RoundName[];
  readonly broken: BrokenName | "all" | null;
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

Runs real fleets. Kills, pauses, disconnects and slows their parts and damages their checkpoints, while agents work, hand off and recover.
Then verifies that nothing was lost or applied twice, that no healthy agent lost a task, and the other guarantees of shared/protocol/SPEC.md.

  --minutes N       duration of the faults of all rounds together (default 2)
  --seed N          seed of the faults and of the agents' work (default: a random one, which is printed)
  --json FILE       also write counts, faults and violations as JSON
  --rounds A,B      ${ROUNDS.join(", ")} (default: all that can run here)
  --faults A,B      only these kinds of faults (default: all that are possible here); kill_agents includes the kills of takers, workers,
                    coordinators and watchdogs at kill points, and the random failures of workers:
                    ${listed(FAULT_KINDS)}
  --broken NAME     run a build without one safeguard, which a check must detect; "all" runs each of them and prints what was detected:
                    ${listed([...BROKEN_NAMES, "all"])}
  --keep            also keep the evidence of rounds without violations
  --help            this text

Rounds: alone has one process with every service; small-disk is the same on a disk that fills up; several has two of each service and a runner
on one embedded store, in which bits of checkpoints are flipped; retention is the same while retention and operators remove checkpoints all
the time; cluster is several on a bus of three servers, of which one after the other is killed or frozen, with few other kinds of faults;
upgrade replaces every process of the previous release by one of this tree, and back, and has no other faults; foundationdb is several on a
FoundationDB cluster of three zones with two copies, of which one after the other is killed or frozen, with few other kinds of faults; where
fdbserver is not on PATH it is several on one server.

Exit code: 0, or 1 after a violation (the seed and the evidence are printed), or 2 when the run itself failed.
With --broken all: 0 if every broken build was detected, or else 1.
`;

/** Returns null for --help; throws with a one-line message for invalid arguments. */
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
    broken:
      values.broken === undefined
        ? null
        : chosen("--broken", [values.broken], [...BROKEN_NAMES, "all"] as const)[0]!,
    faults: values.faults === undefined ? null : chosen("--faults", values.faults.split(","), FAULT_KINDS),
    keep: values.keep,
  };
}

function chosen<T extends string>(option: string, names: readonly string[], among: readonly T[]): T[] {
  const unknown = names.find((name) => !(among as readonly string[]).includes(name));
  if (unknown !== undefined)
    throw new Error(`${option}: unknown value ${unknown}; the values are ${among.join(", ")}`);
  return names as T[];
}

/** The command that repeats a run. */
export function commandFor({ minutes, seed, rounds, broken, faults }: Options): string {
  const parts = [`--minutes ${minutes}`, `--seed ${seed}`, `--rounds ${rounds.join(",")}`];
  if (faults !== null) parts.push(`--faults ${faults.join(",")}`);
  if (broken !== null) parts.push(`--broken ${broken}`);
  return `npm run faults -- ${parts.join(" ")}`;
}
