// `fleet hook <vendor> <event>`: passes one event of an agent's program to the helper process, and prints its answer.
//
// The usual events are handled by fleet.sh, in the same form. This program starts the helper, and takes what is not usual. It loads
// nothing but Node's own modules, on any Node. The event is on disk before the helper is asked. The agent continues after every
// failure here: the exit code is 0, and hook.log has a line.

import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { createConnection } from "node:net";
import { homedir } from "node:os";
import { join } from "node:path";

/** Milliseconds for which the agent waits for an answer at most, as in fleet.sh. The helper answers earlier if the fleet cannot. */
const WAITS = { SessionStart: 2_000, BeforeAgent: 2_000, Stop: 75, AfterAgent: 75 };
/** For the start of a helper, before the first answer of a session. */
const START_POLL_MS = 25;
const LOG_BYTES_MAX = 1_000_000;
/** The longest path that every system takes for a socket. */
const SOCKET_PATH_MAX = 100;
/** A hook reports whole files: an event keeps this much, and of each text the begin. */
const EVENT_CHARS_MAX = 100_000;
const TEXT_CHARS_MAX = 20_000;
const MEMBERS_MAX = 200;
const MEMBER_CHARS = 8;
const LEVELS_MAX = 5;
/** Kept while no helper runs, as Inbox does while one runs. */
const EVENTS_MAX = 5_000;
const SECRET_NAME =
  /KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|(?:^|_)(?:PASS|COOKIES?|CREDS?|SEED|DSN|PAT)(?:_|$)/i;
const SECRET_CHARS_MIN = 8;
const WORD = /^(?:[A-Za-z]?[a-z]+(?:[-_. ][a-z]+)*|[A-Z]+(?:_[A-Z]+)*)$/;
const WORD_CHARS_MAX = 20;
/** From the `:` behind the user to the last `@` before the path. Equal in secret-settings.ts and, in other words, in event.awk. */
const ADDRESS_PASSWORD = /^[^ \t\r\n/:]*:([^ \t\r\n/@]*(?:@[^ \t\r\n/?#@]*)*)@/;
const ADDRESS_PARTS_MAX = 16;
/** They belong to the fleet of FLEET_HOME. Equal in event.awk. */
const OF_BUS = /^FLEET_(?:HOME|URL|NATS_(?:CREDS|TOKEN_FILE|CA|CERT|KEY))$/;

export async function runHook([vendor, event, ...options], env = process.env) {
  const folder = folderOf(env);
  try {
    const at = Date.now();
    const home = options[options.indexOf("--home") + 1];
    const payload = withoutKnownSecrets(shortened(readFileSync(0, "utf8")), env);
    const socket = join(folder, "helper.sock");
    if (socket.length > SOCKET_PATH_MAX)
      throw new Error(`the path ${socket} is too long; set FLEET_HOOK_DIR`);
    secure(folder);
    const waitMs = wait(event, env);
    const fleet = fleetVariables(env, options.includes("--home") ? home : undefined);
    const fields = { vendor, event, at, wait: waitMs, cwd: process.cwd(), ...fleet };
    const name = `${String(at).padStart(14, "0")}-${process.pid}.event`;
    const file = keep(folder, name, await stored(name, fields, payload, env));
    const answer = await ask(socket, file, waitMs, event === "SessionStart" ? folder : undefined, () => {
      dropOldest(join(folder, "inbox"));
      return startHelper(folder);
    });
    if (answer) process.stdout.write(answer);
  } catch (error) {
    log(folder, vendor, event, error);
  }
}

/** Starts the helper, unless one runs. */
export async function ensureHelper(env = process.env) {
  const folder = folderOf(env);
  if ((await exchange(join(folder, "helper.sock"), "", 0)) === undefined) await startHelper(folder);
}

/** The variables of the session. As in fleet.sh: FLEET_HOME counts for an agent that a runner started, and names its own bus. */
function fleetVariables(env, home) {
  const fleet = Object.fromEntries(Object.entries(env).filter(([name]) => name.startsWith("FLEET_")));
  if (home === undefined) return fleet;
  if (!fleet.FLEET_HOME || isSameFolder(fleet.FLEET_HOME, home)) return { ...fleet, FLEET_HOME: home };
  if (env.FLEET_AGENT_ID) return fleet;
  const others = Object.entries(fleet).filter(([name]) => !OF_BUS.test(name));
  return { ...Object.fromEntries(others), FLEET_HOME: home };
}

function isSameFolder(a, b) {
  try {
    return a === b || realpathSync(a) === realpathSync(b);
  } catch {
    return false;
  }
}

const folderOf = (env) =>
  env.FLEET_HOOK_DIR || join(env.XDG_STATE_HOME || join(homedir(), ".local", "state"), "fleet", "hooks");

function wait(event, { FLEET_HOOK_WAIT: given }) {
  const usual = WAITS[event] ?? 0;
  return usual > 0 && given > 0 ? Number(given) : usual;
}

/** The event as JSON within the limits, or an empty text, which the helper reports. Single members come before lists and objects. */
function shortened(text) {
  let left = EVENT_CHARS_MAX;
  const short = (value, levels) => {
    left -= MEMBER_CHARS;
    if (typeof value === "string") {
      const kept = value.slice(0, Math.max(0, Math.min(TEXT_CHARS_MAX, left)));
      left -= kept.length;
      return kept;
    }
    if (typeof value !== "object" || value === null) return value;
    if (levels === 0 || left <= 0) return null;
    const members = Object.entries(value).slice(0, MEMBERS_MAX);
    const isSingle = ([, member]) => typeof member !== "object" || member === null;
    const ordered = [...members.filter(isSingle), ...members.filter((member) => !isSingle(member))];
    const kept = ordered.map(([name, member]) => [name.slice(0, MEMBERS_MAX), short(member, levels - 1)]);
    return Array.isArray(value) ? kept.map(([, member]) => member) : Object.fromEntries(kept);
  };
  try {
    return JSON.stringify(short(JSON.parse(text), LEVELS_MAX));
  } catch {
    return "";
  }
}

/** The secrets of variables, wherever the agent repeats them: values that are named like secrets, and passwords in addresses. */
function withoutKnownSecrets(text, env) {
  const named = (env.FLEET_SECRET_NAMES ?? "").split(",").map((name) => name.trim());
  const secrets = Object.entries(env).flatMap(([name, value]) => {
    const isNamed = SECRET_NAME.test(name) || named.includes(name);
    return [...(isNamed ? [value] : []), ...passwordsOf(value)];
  });
  // The longest first: a shorter one may be its begin.
  return secrets
    .filter((secret) => secret.length >= SECRET_CHARS_MIN && !isPlain(secret))
    .sort((a, b) => b.length - a.length)
    .reduce((kept, secret) => kept.replaceAll(JSON.stringify(secret).slice(1, -1), "[redacted]"), text);
}

/** Of addresses such as that of a database, as they stand there and decoded. A word is none: it may be the name of a product. */
function passwordsOf(value) {
  const found = value.split("://").slice(1);
  return found
    .flatMap((rest) => begins(ADDRESS_PASSWORD.exec(rest)?.[1] ?? ""))
    .flatMap((written) => {
      try {
        return [written, decodeURIComponent(written)];
      } catch {
        return [written];
      }
    })
    .filter((password) => password.length > WORD_CHARS_MAX || !WORD.test(password));
}

/** What ends before each `@`: one more begins the host, or stands in the password, or in the next address of a list. */
function begins(text) {
  const parts = text.split("@").slice(0, ADDRESS_PARTS_MAX);
  return parts.map((_, i) => parts.slice(0, i + 1).join("@"));
}

/** A number or a path, which a text without them would not explain. A secret may begin with a digit or a slash. */
const isPlain = (value) =>
  /^\d{1,11}$/.test(value) || /^(?:~|\.{1,2})\//.test(value) || (value.startsWith("/") && existsSync(value));

/** Events name prompts and commands, and answers are instructions for the agent: the folder is this user's alone. */
function secure(folder) {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const { uid, mode } = statSync(folder);
  if (process.getuid !== undefined && uid !== process.getuid()) throw new ForeignFolder(folder);
  if ((mode & 0o077) !== 0) chmodSync(folder, 0o700);
}

class ForeignFolder extends Error {
  constructor(folder) {
    super(`the folder ${folder} belongs to another user; set FLEET_HOOK_DIR`);
  }
}

/** Without a helper the oldest events are dropped here. */
function dropOldest(inbox) {
  const names = readdirSync(inbox).sort();
  for (const name of names.slice(0, Math.max(0, names.length - EVENTS_MAX)))
    rmSync(join(inbox, name), { force: true });
}

/** The form of an event: lines of `name=value`, an empty line, and the payload. With a key of this machine it is sealed. */
async function stored(name, fields, payload, env) {
  const lines = Object.entries(fields).filter(([, value]) => !/[\n\r]/.test(String(value)));
  const text = [...lines.map((line) => line.join("=")), "", payload].join("\n");
  if (!env.FLEET_SPOOL_KEY) return text;
  const { sealedEvent } = await import("./seal.mjs");
  return sealedEvent(text, name, env.FLEET_SPOOL_KEY, env);
}

/** Under its final name an event is whole. */
function keep(folder, name, text) {
  const inbox = join(folder, "inbox");
  mkdirSync(inbox, { recursive: true, mode: 0o700 });
  const path = join(inbox, name);
  writeFileSync(`${path}.part`, text, { mode: 0o600 });
  renameSync(`${path}.part`, path);
  return name;
}

/** Resolves with what is to be printed; an empty text if no answer comes in time. */
async function ask(socket, file, waitMs, startsSession, start) {
  const deadline = performance.now() + waitMs;
  let answer = await exchange(socket, file, waitMs);
  if (answer !== undefined) return answer;
  await start();
  while (startsSession && performance.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, START_POLL_MS));
    answer = await exchange(socket, file, deadline - performance.now());
    if (answer !== undefined) return answer;
  }
  return "";
}

/** undefined: no helper runs. */
function exchange(socket, file, waitMs) {
  return new Promise((resolve) => {
    const connection = createConnection(socket);
    let text = "";
    const end = (answer) => {
      clearTimeout(timer);
      connection.destroy();
      resolve(answer);
    };
    // A helper that hangs must not hold the agent, not even one that does not accept.
    // On a busy machine the time is over before it is known that no helper runs: that comes first, or none would be started.
    const timer = setTimeout(() => setImmediate(() => end("")), Math.max(waitMs, 30));
    connection.setEncoding("utf8");
    connection.on("error", () => end(text === "" ? undefined : text));
    connection.on("data", (part) => {
      text += part;
    });
    connection.on("end", () => end(text));
    connection.on("connect", () => {
      connection.end(`${file}\n`, () => {
        if (waitMs === 0) end("");
      });
    });
  });
}

/** The helper outlives the agent. It gets no settings of one agent, because it serves all agents of this user, but for keys of this machine. */
async function startHelper(folder) {
  const [{ spawn }, { enableCompileCache }, { isPackage, root }, versions] = await Promise.all([
    import("node:child_process"),
    import("../local/compile-cache.mjs"),
    import("../local/root.mjs"),
    import("../local/versions.mjs"),
  ]);
  const { OLDEST_NODE, OLDEST_NODE_COMPILED, versionAtLeast } = versions;
  const compiled = isPackage(root);
  const main = compiled
    ? join(root, "dist", "services", "hook", "main.js")
    : join(root, "services", "hook", "main.ts");
  const isNew = versionAtLeast(process.versions.node, compiled ? OLDEST_NODE_COMPILED : OLDEST_NODE);
  const node = isNew ? process.execPath : join(root, "node_modules", ".bin", "node");
  enableCompileCache();
  const keys = (process.env.FLEET_SPOOL_KEY ?? "").split(",").map((source) => source.trim());
  const env = Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) =>
        !name.startsWith("FLEET_") || name.startsWith("FLEET_HOOK_") || keys.includes(`env:${name}`),
    ),
  );
  spawn(node, [main], {
    cwd: folder,
    detached: true,
    stdio: "ignore",
    env: { ...env, FLEET_HOOK_DIR: folder },
  })
    .on("error", (error) => log(folder, "helper", "start", error))
    .unref();
}

function log(folder, vendor, event, error) {
  // Its files could be links to those of this user.
  if (error instanceof ForeignFolder) return void process.stderr.write(`fleet hook: ${error.message}\n`);
  try {
    const path = join(folder, "hook.log");
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) > LOG_BYTES_MAX) truncateSync(path);
    const time = new Date().toISOString();
    const line = {
      level: "error",
      time,
      service: "fleet-hook",
      vendor,
      event,
      problem: String(error?.message ?? error),
      msg: "an event of an agent was lost",
    };
    appendFileSync(path, `${JSON.stringify(line)}\n`, { mode: 0o600 });
  } catch {
    // A disk that takes no line must not break the agent either.
  }
}
