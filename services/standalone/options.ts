/** The command line of `npm start`: options for the settings that a first start needs, and the help. */
import { exitCodes } from "../../shared/runtime/process/startup.ts";
import { nearestName } from "../../shared/runtime/settings/did-you-mean.ts";

/** What the process does: it starts with these settings in its environment, or prints a text and ends. */
export type StartCall =
  | { readonly kind: "start"; readonly settings: Readonly<Record<string, string>> }
  | { readonly kind: "end"; readonly text: string; readonly exitCode: number };

interface StartOption {
  readonly setting: string;
  readonly value: string;
  readonly meaning: string;
  /** The values that are ports, from the lowest one. Absent: any text. */
  readonly portMin?: number;
}

const OPTIONS: Readonly<Record<string, StartOption>> = {
  "--port": {
    setting: "FLEET_NATS_PORT",
    value: "N",
    meaning: "port of the bus (FLEET_NATS_PORT, else 4222)",
    portMin: 1,
  },
  "--ops-port": {
    setting: "FLEET_OPS_PORT",
    value: "N",
    meaning: "port of /metrics, /healthz and /readyz (FLEET_OPS_PORT, else 4280); 0 takes any free one",
    portMin: 0,
  },
  "--api-port": {
    setting: "FLEET_GATEWAY_PORT",
    value: "N",
    meaning: "port of the HTTP API (FLEET_GATEWAY_PORT, else 4284); 0: no HTTP API",
    portMin: 0,
  },
  "--home": {
    setting: "FLEET_HOME",
    value: "PATH",
    meaning: "folder of the data (FLEET_HOME, else .fleet)",
  },
};
const HELP = ["--help", "-h"];
const PORT_MAX = 65_535;

/** @param argv without the program */
export function readCall(argv: readonly string[], env: NodeJS.ProcessEnv): StartCall {
  const program = env.npm_lifecycle_event === "start" ? "npm start --" : "node services/standalone/main.ts";
  if (argv.some((word) => HELP.includes(word))) return { kind: "end", text: help(program), exitCode: 0 };
  const wrong = (text: string): StartCall => ({
    kind: "end",
    text: `fleet: ${text}. See \`${program} --help\`.\n`,
    exitCode: exitCodes.usage,
  });
  const kept = keptByNpm(argv, env);
  if (kept !== undefined) return wrong(`npm took ${kept.name} for itself; did you mean \`${kept.meant}\``);
  const settings: Record<string, string> = {};
  const words = [...argv];
  for (let word = words.shift(); word !== undefined; word = words.shift()) {
    const [name, inline] = split(word);
    const option = OPTIONS[name];
    if (option === undefined) return wrong(unknown(word, name));
    const value = inline ?? words.shift();
    if (value === undefined || value === "" || !fits(value, option))
      return wrong(`${name}: expected ${expected(option)}; got ${value ? JSON.stringify(value) : "nothing"}`);
    settings[option.setting] = value;
  }
  return { kind: "start", settings };
}

/** `--port=1` as its two parts. */
function split(word: string): [string, string?] {
  const equals = word.startsWith("--") ? word.indexOf("=") : -1;
  return equals < 0 ? [word] : [word.slice(0, equals), word.slice(equals + 1)];
}

function unknown(word: string, name: string): string {
  if (!name.startsWith("-")) {
    const meant = /^\d+$/.test(word) ? "; did you mean `--port`" : "";
    return `unexpected argument ${JSON.stringify(word)}${meant}`;
  }
  const meant = nearestName(name, [...Object.keys(OPTIONS), ...HELP]);
  return `unknown option ${name}${meant === undefined ? "" : `; did you mean \`${meant}\``}`;
}

function fits(value: string, { portMin }: StartOption): boolean {
  if (portMin === undefined) return !value.startsWith("--");
  return /^\d{1,5}$/.test(value) && Number(value) >= portMin && Number(value) <= PORT_MAX;
}

const expected = ({ portMin }: StartOption): string =>
  portMin === undefined ? "a path" : `a whole number from ${portMin} to ${PORT_MAX}`;

/** Without `--`, npm reads the options as its own, and passes a value behind them on as an argument. */
function keptByNpm(
  argv: readonly string[],
  env: NodeJS.ProcessEnv,
): { readonly name: string; readonly meant: string } | undefined {
  if (env.npm_lifecycle_event !== "start") return undefined;
  for (const name of Object.keys(OPTIONS)) {
    const value = env[`npm_config_${name.slice(2).replace("-", "_")}`];
    if (value === undefined) continue;
    const given = value === "" || value === "true" ? (argv[0] ?? OPTIONS[name]!.value) : value;
    return { name, meant: `npm start -- ${name} ${given}` };
  }
  return undefined;
}

function help(program: string): string {
  const rows: [string, string][] = [
    ...Object.entries(OPTIONS).map(([name, { value, meaning }]): [string, string] => [
      `${name} ${value}`,
      meaning,
    ]),
    [HELP.join(", "), "show this help"],
  ];
  const codes: [number, string][] = [
    [0, "stopped by Ctrl-C or SIGTERM"],
    [exitCodes.usage, "the call is wrong"],
    [
      exitCodes.unavailable,
      "a part is unavailable: a port is taken, another fleet uses the folder, the disk is full",
    ],
    [exitCodes.software, "a bug in Fleet, or the stop took too long"],
    [
      exitCodes.cannotCreate,
      "the folder of the data cannot be written, or its file system cannot hold a store",
    ],
    [exitCodes.config, "a setting is wrong"],
  ];
  return [
    `usage: ${program} [options]`,
    "",
    "Starts the whole fleet in one process, until Ctrl-C.",
    "",
    ...rows.map(([name, meaning]) => `  ${name.padEnd(14)}  ${meaning}`),
    "",
    "All other settings are environment variables: deploy/SETTINGS.md.",
    "",
    "Examples:",
    `  ${program} --port 5222`,
    `  ${program} --home ./other --port 5222 --ops-port 5280 --api-port 5284`,
    "",
    "Exit codes:",
    ...codes.map(([code, meaning]) => `  ${String(code).padStart(2)}  ${meaning}`),
    "",
  ].join("\n");
}
