// `fleet access api-key`: keys for the HTTP API. A key stands for one principal, with credentials for the bus that only the key opens.

import { writeFileSync } from "node:fs";
import { type Command, Option } from "commander";
import type { ApiKeyRecord } from "../../../../shared/protocol/api-key.ts";
import { CLIENT_ROLES, type ClientRole } from "../../../../shared/protocol/roles.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";
import { recordActs } from "./access-acts.ts";
import {
  existingFolder,
  expiryOf,
  fleetHomeOf,
  principalOf,
  revokeCredentials,
  runningFleet,
} from "./access-home.ts";

const OWNER_ONLY = 0o600;
const EXPIRES_DEFAULT = "90d";

interface CreateFlags {
  readonly agent: string;
  readonly tenant?: string;
  readonly role: ClientRole;
  readonly scope?: readonly string[];
  readonly expires: string;
  readonly out?: string;
}

export function addApiKey(group: Command, action: ActionFactory): void {
  const keys = group.command("api-key").description("Create, list and revoke keys for the HTTP API.");
  const create = keys
    .command("create")
    .summary("Create a key and print it once.")
    .description(
      "Create a key with which an agent, a program or a person uses the HTTP API. It is shown once and kept nowhere.",
    )
    .requiredOption("--agent <name>", "the name under which the holder acts")
    .addOption(
      new Option("--role <role>", "what the holder may do").choices([...CLIENT_ROLES]).default("agent"),
    )
    .option(
      "--scope <scope...>",
      "only these operations: tasks:read, missions:write, createCheckpoint; default: all of the role",
    )
    .option("--expires <time>", "how long it is valid: 8h, 30d, or never", EXPIRES_DEFAULT)
    .option("--out <file>", "write the key to a new file that only you can read")
    .action(action(createKey));
  withExamples(create, (fleet) => ({
    "A script that writes checkpoints": `${fleet} access api-key create --agent ci --scope createCheckpoint tasks:read`,
    "A program that reads": `${fleet} access api-key create --agent dashboard --role observer --out dashboard.key`,
    "An operator for a working day": `${fleet} access api-key create --agent ada --role operator --expires 8h`,
  }));
  const list = keys
    .command("list")
    .description("List the keys: for whom, which role, until when. The keys themselves are kept nowhere.")
    .action(action(listKeys));
  withExamples(list, (fleet) => ({ "All keys": `${fleet} access api-key list` }));
  const revoke = keys
    .command("revoke")
    .argument("<id>", "the id of the key, or the name that it stands for")
    .description("Revoke a key, or all keys of a name. Their connections are closed at once.")
    .action(action(revokeKeys));
  withExamples(revoke, (fleet) => ({ "All keys of a program": `${fleet} access api-key revoke dashboard` }));
}

async function createKey(session: Session, flags: CreateFlags): Promise<void> {
  const { role, out } = flags;
  const scopes = await scopesOf(flags.scope);
  const now = new Date(session.context.now());
  const principal = principalOf(session, flags);
  const expiresAt = expiryOf(flags.expires, now);
  const keysFolder = await existingFolder(session);
  const { issueGrant } = await import("../../../../shared/bus/access/administration.ts");
  const { readAccountName } = await import("../../../../shared/bus/access/keys.ts");
  const { createApiKey } = await import("../../../../shared/bus/api-keys.ts");
  const { grant, credentials } = await issueGrant(keysFolder, {
    role,
    ...principal,
    expiresAt,
    scopes,
    now,
  });
  const { key, record } = createApiKey(await folderOf(session), {
    role,
    scopes,
    ...principal,
    grant: grant.id,
    account: readAccountName(keysFolder) ?? null,
    credentials,
    expiresAt,
    now,
  });
  if (out !== undefined) writeFileSync(out, `${key}\n`, { mode: OWNER_ONLY, flag: "wx" });
  await recordActs(session, keysFolder, await runningFleet(session));
  const until = expiresAt === null ? "without an end" : `until ${expiresAt.toISOString()}`;
  const what = `API key of ${flags.agent} as ${role} in tenant ${principal.tenant}, ${until}; id ${record.id}`;
  if (out === undefined) session.notice(what);
  const data = { ...openPart(record), ...(out === undefined ? { key } : { file: out }) };
  await session.show(data, () => (out === undefined ? key : `Written to ${out}: ${what}`));
}

async function scopesOf(given: readonly string[] | undefined): Promise<readonly string[] | null> {
  if (given === undefined) return null;
  const { isScope, SCOPES } = await import("../../../../shared/protocol/rest/scopes.ts");
  const unknown = given.find((scope) => !isScope(scope));
  if (unknown === undefined) return given;
  const pairs = SCOPES.filter((scope) => scope.includes(":")).join(", ");
  throw new UsageError(`there is no scope ${unknown}`, `Use ids of operations, or ${pairs}.`);
}

async function listKeys(session: Session): Promise<void> {
  const { listApiKeys } = await import("../../../../shared/bus/api-keys.ts");
  const now = session.context.now();
  const keys = listApiKeys(await folderOf(session)).map((record) => ({
    ...openPart(record),
    state: record.expires_at !== null && Date.parse(record.expires_at) <= now ? "expired" : "valid",
  }));
  const { renderApiKeys } = await import("../../rendering/access/grants.ts");
  await session.show({ api_keys: keys }, () => renderApiKeys(keys, session.view));
}

async function revokeKeys(session: Session, who: string): Promise<void> {
  const { listApiKeys, removeApiKey } = await import("../../../../shared/bus/api-keys.ts");
  const { principalToken } = await import("../../../../shared/protocol/principal.ts");
  const folder = await folderOf(session);
  const { tenant } = session.settings;
  const names = [who, principalToken({ kind: "human", name: who })];
  const meant = listApiKeys(folder).filter(
    (key) => key.id === who || (names.includes(key.name) && (tenant ?? key.tenant) === key.tenant),
  );
  if (meant.length === 0)
    throw new UsageError(`there is no API key ${who}`, `See \`${session.programName} access api-key list\`.`);
  // The gateway refuses a key without its record; the server ends the connection that its credentials have.
  for (const { id } of meant) removeApiKey(folder, id);
  const grants = new Set(meant.map(({ grant }) => grant));
  const { isApplied } = await revokeCredentials(session, ({ id }) => grants.has(id));
  const { counted } = await import("../../rendering/terminal/text.ts");
  await session.show({ revoked: meant.map(openPart), applied: isApplied }, () =>
    isApplied
      ? `Revoked ${counted(meant.length, "API key")}.`
      : `Revoked ${counted(meant.length, "API key")}; the server refuses the credentials at its next start.`,
  );
}

async function folderOf(session: Session): Promise<string> {
  const { apiKeysFolder } = await import("../../../../shared/bus/api-keys.ts");
  return apiKeysFolder(await fleetHomeOf(session), session.context.env);
}

/** Without the hash and the sealed credentials, which help no reader. */
function openPart({ digest: _, sealed: __, ...open }: ApiKeyRecord): Omit<ApiKeyRecord, "digest" | "sealed"> {
  return open;
}
