// What the benchmark is asked for on its command line.

import { parseArgs } from "node:util";

export const GROUPS = [
  "raw",
  "write",
  "burst",
  "sustained",
  "degraded",
  "handoff",
  "recovery",
  "overhead",
  "reads",
  "prompts",
  "foundationdb",
] as const;
export type GroupName = (typeof GROUPS)[number];

export interface Options {
  readonly only: ReadonlySet<GroupName>;
  readonly quick: boolean;
  readonly large: boolean;
  /** A file for the figures as JSON. */
  readonly json: string | null;
  /** A folder for CPU profiles of the fleet's process. */
  readonly profile: string | null;
}

export const HELP = `npm run bench -- [options]

Measures the fleet on this machine from its agents' side, and compares it with the raw store and the raw bus of the same run.

  --only GROUP[,GROUP]  ${GROUPS.join(", ")}; ratios to raw need raw (default: all)
  --quick               short runs: whether it works, not how well, so nothing but failed requests is judged
  --large               also search 1,000,000 checkpoints; loading them takes many minutes
  --json FILE           write the figures as JSON, too
  --profile FOLDER      keep CPU profiles of the fleet's process
  --help                this text

Exit code: 0, or 1 when something required is missed, or 2 when the benchmark itself failed.
`;

/** null: help is asked for. Throws with one line that says what is wrong. */
export function readOptions(args: string[]): Options | null {
  const { values } = parseArgs({
    args,
    options: {
      only: { type: "string" },
      quick: { type: "boolean", default: false },
      large: { type: "boolean", default: false },
      json: { type: "string" },
      profile: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return null;
  const { quick, large, json = null, profile = null } = values;
  return { only: groups(values.only), quick, large, json, profile };
}

function groups(text: string | undefined): ReadonlySet<GroupName> {
  if (text === undefined) return new Set(GROUPS);
  const names = text.split(",").map((name) => name.trim());
  const unknown = names.filter((name) => !(GROUPS as readonly string[]).includes(name));
  if (unknown.length > 0) throw new Error(`no group ${unknown.join(", ")}; there are ${GROUPS.join(", ")}`);
  return new Set(names as GroupName[]);
}
