/** The known secrets of a process: values of its environment, and those of a file. */
import { readFileSync, statSync } from "node:fs";
import { hostname, userInfo } from "node:os";
import { KNOWN_SECRETS_MAX } from "../../integrity/redaction/known-secrets.ts";
import { FILE_NAME, KEY_WORDS } from "../../integrity/redaction/member-names.ts";
import { SECRET_CHARS_MIN } from "../../integrity/redaction/secret-forms.ts";
import {
  ConfigError,
  type ConfigOf,
  type Environment,
  list,
  oneOf,
  optional,
  text,
} from "../../runtime/settings/config.ts";

/** `automatic`: what hooks, the MCP server and runs of agents write. */
export const REDACTION_MODES = ["automatic", "on", "off"] as const;
export type RedactionMode = (typeof REDACTION_MODES)[number];

const NAMES = "FLEET_SECRET_NAMES";
const FILE = "FLEET_SECRETS_FILE";

export const redactionFields = {
  redaction: oneOf("FLEET_REDACTION", REDACTION_MODES, {
    default: "automatic",
    description:
      "Secrets are removed before anything leaves the process: from all that it writes, or only from what hooks, the MCP server and runs of agents write",
  }),
  secretNames: list(NAMES, {
    default: [],
    description: "Variables with secrets, in addition to those that are named like secrets",
  }),
  secretsFile: optional(
    text(FILE, { description: "File with further secrets to remove, one in each line; for its user only" }),
  ),
} as const;

export type RedactionSettings = ConfigOf<typeof redactionFields>;

const SECRET_NAME = new RegExp(
  "(?:^|_)(?:PASS|PASSWD|PASSPHRASE|PWD|COOKIES?|CREDS?|CREDENTIALS?|AUTH|AUTHORIZATION|SEED|DSN|PAT|TOKENS?|SECRETS?)(?:_|$)|" +
    `PASSWORD|(?:^|_)(?:${KEY_WORDS.join("|")})_?KEYS?(?:_|$)|APIKEY`,
  "i",
);
/** Of any other key, only a value that can hardly be anything else, because there are keys of sorting, caches and routes. */
const KEY_NAME = /_KEY$/i;
const KEY_VALUE = /^(?=.*\d)(?=.*[a-z])(?=.*[A-Z])[\w-]{20,}$/;
/** What such names end in if the value says something about a secret. */
const PLAIN_NAME =
  /_(?:FILE|PATH|DIR|ID|SOCK|COUNT|LIMIT|MAX|MIN|TTL|TIMEOUT|EXPIRES?|EXPIRY|NAMES?|TYPE|USER|ENABLED|URL|HOST|PORT|ALG|ALGORITHM|VERSION|LENGTH|SIZE|MODE|REGION|MODEL|DOMAIN|HEADER|ISSUER|EMAIL|BACKEND|SCHEME|PROVIDER|PREFIX|AUDIENCE)_?\d*$/i;
/** The folders of a shell. */
const FOLDERS: ReadonlySet<string> = new Set(["PWD", "OLDPWD"]);

/** Throws ConfigError if a value is too short to be searched for, or if the file cannot be read or can be read by others. */
export function knownSecrets({ secretNames, secretsFile }: RedactionSettings, env: Environment): string[] {
  const stated = new Set<string>();
  const personal = new Set([accountName(), hostname()]);
  for (const [name, value = ""] of Object.entries(env)) {
    if (isNamedSecret(name, value) && !isPlain(value) && !personal.has(value)) stated.add(value);
  }
  for (const name of secretNames) {
    const value = env[name] ?? "";
    if (value !== "") stated.add(longEnough(`${NAMES}: ${name}`, value));
  }
  if (secretsFile !== undefined) for (const value of linesOf(secretsFile)) stated.add(value);
  const written = Object.values(env).flatMap((value = "") => passwordsOf(value));
  let count = 0;
  for (const cut of [begins, firstAndLongest]) {
    const passwords = written.flatMap(cut).flatMap(spellingsOf);
    const found = new Set([...stated, ...passwords.filter((password) => !isPlain(password))]);
    if (found.size <= KNOWN_SECRETS_MAX) return [...found];
    count = found.size;
  }
  throw new ConfigError([
    {
      name: `${FILE}, ${NAMES} and the environment`,
      expected: `at most ${KNOWN_SECRETS_MAX} secrets in all, with variables that are named like secrets and passwords in addresses`,
      got: String(count),
    },
  ]);
}

function isNamedSecret(name: string, value: string): boolean {
  if (PLAIN_NAME.test(name) || FOLDERS.has(name) || name === NAMES) return false;
  return SECRET_NAME.test(name) || (KEY_NAME.test(name) && KEY_VALUE.test(value));
}

/**
 * From the `:` behind the user to the last `@` before the path: people write passwords with `@` as they are. Equal in hook.mjs and, in other words,
 * in event.awk.
 */
const ADDRESS_PASSWORD = /\b[a-z][a-z0-9+.-]{1,20}:\/\/[^\s/:]*:(?<password>[^\s/@]*(?:@[^\s/?#@]*)*)@/gi;
const ADDRESS_PARTS_MAX = 16;

/** The passwords of addresses, such as that of a database, as they stand there. */
function passwordsOf(value: string): string[] {
  return [...value.matchAll(ADDRESS_PASSWORD)].map(({ groups }) => groups?.password ?? "");
}

/** What ends before each `@`: one more begins the host, or stands in the password, or in the next address of a list. */
function begins(text: string): string[] {
  const parts = text.split("@").slice(0, ADDRESS_PARTS_MAX);
  return parts.map((_, i) => parts.slice(0, i + 1).join("@"));
}

/** Of many at signs in many addresses the likeliest: there would be more beginnings than can be searched for. */
function firstAndLongest(text: string): string[] {
  const all = begins(text);
  return [...all.slice(0, 1), ...all.slice(-1)];
}

function spellingsOf(written: string): string[] {
  try {
    return [written, decodeURIComponent(written)];
  } catch {
    return [written];
  }
}

/** Words, numbers, paths and addresses, which a text without them would not explain. */
function isPlain(value: string): boolean {
  return (
    value.length < SECRET_CHARS_MIN ||
    new Set(value).size < 5 ||
    /^\d{1,11}$/.test(value) ||
    (value.length <= 20 && /^[A-Za-z]?[a-z]+(?:[-_. ][a-z]+)*$|^[A-Z]+(?:_[A-Z]+)*$/.test(value)) ||
    /^(?:~[a-z]*|\.{1,2})\/|^[A-Za-z]:\\|^[a-z][\w+.-]*:\/\//i.test(value) ||
    FILE_NAME.test(value) ||
    FOLDER.test(value)
  );
}

/** Below a usual folder of a machine, or of words only: a secret in Base64 has slashes too. Never looked for on the disk, because a repeated command must have the same bytes. */
const FOLDER =
  /^\/(?:app|data|dev|etc|home|mnt|opt|private|proc|root|run|srv|tmp|usr|Users|var|workspaces?)(?:\/|$)|^\/?(?:[a-z][a-z._-]{0,40}\d{0,4}\/)+[a-z._-]{0,40}\d{0,4}$/;

function linesOf(path: string): string[] {
  let lines: string[];
  try {
    if ((statSync(path).mode & 0o077) !== 0) throw fileProblem(path, "other users may read it");
    lines = readFileSync(path, "utf8").split(/\r?\n/);
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    throw fileProblem(path, (error as NodeJS.ErrnoException).code ?? "it cannot be read");
  }
  return lines.flatMap((line, index) =>
    line === "" ? [] : [longEnough(`${FILE}: line ${index + 1}`, line)],
  );
}

function longEnough(name: string, value: string): string {
  if (value.length >= SECRET_CHARS_MIN) return value;
  const expected = `at least ${SECRET_CHARS_MIN} characters; shorter ones stand in harmless texts`;
  throw new ConfigError([{ name, expected, got: `${value.length} characters` }]);
}

const fileProblem = (path: string, got: string): ConfigError =>
  new ConfigError([{ name: FILE, expected: "a file that only its user may read", got: `${path}: ${got}` }]);

/** Some accounts of containers have no name. */
function accountName(): string | undefined {
  try {
    return userInfo().username;
  } catch {
    return undefined;
  }
}
