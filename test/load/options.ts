// The command line of the benchmark.

import { parseArgs } from "node:util";

export const GROUPS = [
  "raw",
  "write",
  "burst",
  "sustained",
  "peers",
  "mirror",
  "retention",
  "access",
  "degraded",
  "handoff",
  "recovery",
  "overhead",
  "reads",
  "prompts",
  "continuity",
  "hooks",
  "gateway",
  "mission",
  "idle",
] as const;
export type GroupName = (typeof GROUPS)[number];

/** It installs packages, so it is measured on request only. */
const PEERS: GroupName = "peers";

/** The stores under the fleet. */
export const STORES = ["lmdb", "foundationdb"] as const;
export type StoreName = (typeof STORES)[number];

/** The values of `--store`. */
const STORE_OPTIONS: Readonly<Record<string, readonly StoreName[]>> = {
  lmdb: ["lmdb"],
  fdb: ["foundationdb"],
  both: STORES,
};

export interface Options {
  readonly only: ReadonlySet<GroupName>;
  readonly stores: readonly StoreName[];
  readonly quick: boolean;
  readonly large: boolean;
  /** The file for the figures as JSON. */
  readonly json: string | null;
  /** The folder for CPU profiles of the fleet's process. */
  readonly profile: string | null;
  /** Divides the processor time of a sustained commit among the parts of the fleet. */
  readonly account: boolean;
}

export const HELP = `npm run bench -- [options]

Measures the fleet on this machine as its agents see it, and compares it with the raw store and the raw bus of the same run.

  --only GROUP[,GROUP]  ${GROUPS.join(", ")}; ratios to raw need the group raw (default: all but ${PEERS})
  --peers               also measure the group ${PEERS}: LangGraph's savers do the same work in the same run; the first time, npm installs
                        them below .fleet; a Postgres server of its own is started where PostgreSQL is installed
  --store STORE         the store under the fleet: lmdb, fdb, both; fdb is one node of FoundationDB on this machine
                        (default: both; without FoundationDB lmdb)
  --quick               short runs that show whether the fleet works; only failed requests are judged
  --large               also search 1,000,000 checkpoints; loading them takes many minutes
  --json FILE           also write the figures as JSON
  --profile FOLDER      keep CPU profiles of all threads of the fleet's process
  --account             also print the processor time of a commit by part, from profiles of all threads, which cost time
                        themselves; needs the group sustained
  --help                this text

Exit codes: 0 all required figures are met, 1 a required figure is missed, 2 a group failed; the others are still measured.
`;

/** Returns null for --help; throws with a one-line message for invalid arguments. */
export function readOptions(args: string[]): Options | null {
  const { values } = parseArgs({
    args,
    options: {
      only: { type: "string" },
      store: { type: "string", default: "both" },
      quick: { type: "boolean", default: false },
      large: { type: "boolean", default: false },
      peers: { type: "boolean", default: false },
      json: { type: "string" },
      profile: { type: "string" },
      account: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return null;
  const { quick, large, json = null, profile = null, account } = values;
  const only = new Set([...groups(values.only), ...(values.peers ? [PEERS] : [])]);
  if (account && !only.has("sustained")) throw new Error("--account needs the group sustained");
  return { only, stores: stores(values.store), quick, large, json, profile, account };
}

function stores(name: string): readonly StoreName[] {
  const named = STORE_OPTIONS[name];
  if (named !== undefined) return named;
  throw new Error(`unknown store ${name}; the stores are ${Object.keys(STORE_OPTIONS).join(", ")}`);
}

function groups(text: string | undefined): ReadonlySet<GroupName> {
  if (text === undefined) return new Set(GROUPS.filter((name) => name !== PEERS));
  const names = text.split(",").map((name) => name.trim());
  const unknown = names.filter((name) => !(GROUPS as readonly string[]).includes(name));
  if (unknown.length > 0)
    throw new Error(`unknown group ${unknown.join(", ")}; the groups are ${GROUPS.join(", ")}`);
  return new Set(names as GroupName[]);
}
