/** The command line of `npm run sizing`. */
import { nearestName } from "../../shared/runtime/settings/did-you-mean.ts";
import type { Demand } from "./formulas.ts";
import { CHOICES } from "./limits.ts";

export type SizingCall =
  | { readonly kind: "plan"; readonly demand: Demand; readonly json: boolean }
  | { readonly kind: "help" };

interface NumberOption {
  readonly field: keyof Demand;
  readonly least: number;
  readonly most: number;
  readonly isWhole: boolean;
  readonly meaning: string;
  /** Absent: required. */
  readonly usual?: number;
}

const OPTIONS: Readonly<Record<string, NumberOption>> = {
  "--agents": {
    field: "agents",
    least: 1,
    most: 1e8,
    isWhole: true,
    meaning: "agents that work at the same time",
  },
  "--checkpoints": {
    field: "checkpoints",
    least: 0,
    most: 1e12,
    isWhole: true,
    meaning: "checkpoints that the store keeps; default 100 for each agent",
  },
  "--bytes": option("bytes", "bytes", 1, 1_000_000),
  "--per-hour": option("perHour", "per_hour", 0, 10_000, false),
  "--heartbeat": option("heartbeatSeconds", "heartbeat_s", 0.1, 3_600, false),
  "--silence": option("silenceSeconds", "silence_s", 1, 86_400, false),
  "--copies": option("copies", "copies", 1, 5),
};

function option(
  field: keyof Demand,
  choice: keyof typeof CHOICES,
  least: number,
  most: number,
  isWhole = true,
): NumberOption {
  const { value: usual, text } = CHOICES[choice];
  return { field, least, most, isWhole, meaning: text.replace(/ \(`.*`\)/, ""), usual };
}

/** The checkpoints that are kept if none are named: as many as the default policy keeps of a task. */
const KEPT_OF_AGENT = 100;

export class SizingUsageError extends Error {}

/** @throws SizingUsageError with the option that is wrong */
export function readSizingCall(argv: readonly string[]): SizingCall {
  const given: Partial<Record<keyof Demand, number>> = {};
  let json = false;
  const words = [...argv];
  for (let word = words.shift(); word !== undefined; word = words.shift()) {
    const [name = "", inline] = word.startsWith("--") ? word.split(/=(.*)/s) : [word];
    if (name === "--help" || name === "-h") return { kind: "help" };
    if (name === "--json" && inline === undefined) {
      json = true;
      continue;
    }
    const found = OPTIONS[name];
    if (found === undefined) throw new SizingUsageError(unknown(word, name));
    given[found.field] = numberOf(name, inline ?? words.shift(), found);
  }
  if (given.agents === undefined)
    throw new SizingUsageError("--agents: expected a number of agents; got nothing");
  return { kind: "plan", json, demand: demandOf({ ...given, agents: given.agents }) };
}

/** The demand of some agents, with the usual value of everything that is not given. */
export function demandOf(given: Partial<Demand> & Pick<Demand, "agents">): Demand {
  return {
    checkpoints: given.agents * KEPT_OF_AGENT,
    bytes: CHOICES.bytes.value,
    perHour: CHOICES.per_hour.value,
    heartbeatSeconds: CHOICES.heartbeat_s.value,
    silenceSeconds: CHOICES.silence_s.value,
    copies: CHOICES.copies.value,
    ...given,
  };
}

function unknown(word: string, name: string): string {
  if (!name.startsWith("-")) return `unexpected argument ${JSON.stringify(word)}`;
  const meant = nearestName(name, [...Object.keys(OPTIONS), "--json", "--help"]);
  return `unknown option ${name}${meant === undefined ? "" : `; did you mean \`${meant}\``}`;
}

function numberOf(name: string, text: string | undefined, { least, most, isWhole }: NumberOption): number {
  const value = /^\d+(\.\d+)?(e\d{1,2})?$/i.test(text ?? "") ? Number(text) : Number.NaN;
  if (value >= least && value <= most && (!isWhole || Number.isInteger(value))) return value;
  const kind = isWhole ? "a whole number" : "a number";
  throw new SizingUsageError(
    `${name}: expected ${kind} from ${least} to ${most}; got ${text === undefined ? "nothing" : JSON.stringify(text)}`,
  );
}

export function sizingHelp(): string {
  const rows: [string, string][] = [
    ...Object.entries(OPTIONS).map(([name, { meaning, usual }]): [string, string] => [
      `${name} N`,
      usual === undefined ? meaning : `${meaning}; default ${usual}`,
    ]),
    ["--json", "print the plan as JSON"],
    ["--help, -h", "show this help"],
  ];
  return [
    "usage: npm run --silent sizing -- --agents N [options]",
    "",
    "Computes the size of a fleet from measured figures: deploy/SIZING.md explains them.",
    "",
    ...rows.map(([name, meaning]) => `  ${name.padEnd(15)}  ${meaning}`),
    "",
    "Numbers may be written as 1000000 or 1e6.",
    "",
    "Examples:",
    "  npm run --silent sizing -- --agents 10000",
    "  npm run --silent sizing -- --agents 1000000 --checkpoints 1e9 --json",
    "",
    "Exit codes:",
    "   0  the plan is printed",
    "  64  the call is wrong",
    "",
  ].join("\n");
}
