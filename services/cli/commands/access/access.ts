// `fleet access`: credentials for the bus. The fleet's keys are in its home, so these commands run as the user and on the
// machine of the fleet, also while it is stopped.

import { writeFileSync } from "node:fs";
import { type Command, Option } from "commander";
import type { RegisteredGrant } from "../../../../shared/bus/access/register/grants.ts";
import { principalToken } from "../../../../shared/protocol/principal.ts";
import { CLIENT_ROLES, type ClientRole } from "../../../../shared/protocol/roles.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";
import { recordActs } from "./access-acts.ts";
import { addApiKey } from "./access-api-key.ts";
import {
  existingFolder,
  expiryOf,
  fleetHomeOf,
  principalOf,
  revokeCredentials,
  runningFleet,
} from "./access-home.ts";
import { addInit } from "./access-init.ts";
import { addMatrix } from "./access-matrix.ts";

const EXPIRES_DEFAULT = "30d";
const OWNER_ONLY = 0o600;

interface IssueFlags {
  readonly agent: string;
  readonly tenant?: string;
  readonly role: ClientRole;
  readonly expires: string;
  readonly out?: string;
}

export function addAccess(program: Command, action: ActionFactory): void {
  const group = program.command("access").description("Issue, list and revoke credentials for the bus.");
  addInit(group, action, fleetHomeOf);
  addIssue(group, action);
  addApiKey(group, action);
  addMatrix(group, action);
  const listCommand = group
    .command("list")
    .description("List the issued credentials: to whom, which role, until when, and what was revoked.")
    .action(action(list));
  withExamples(listCommand, (fleet) => ({
    "All issued credentials": `${fleet} access list`,
    "The valid ones, in a script": `${fleet} access list --json | jq '.grants[] | select(.state == "valid")'`,
  }));
  const revokeCommand = group
    .command("revoke")
    .argument("<who>", "the name of an agent or a person, or the id of one issue")
    .description(
      "Revoke all credentials of a name, or those of one id. Their connections are closed at once.",
    )
    .action(action(revoke));
  withExamples(revokeCommand, (fleet) => ({
    "Everything that coder-7 was given": `${fleet} access revoke coder-7`,
    "One issue": `${fleet} access revoke UDXQ4MHL5ATP`,
  }));
}

function addIssue(group: Command, action: ActionFactory): void {
  const command = group
    .command("issue")
    .summary("Issue credentials and print them once.")
    .description(
      "Issue credentials for an agent, a program or a person, and print the credentials file. It is shown once and kept nowhere.",
    )
    .requiredOption("--agent <name>", "the name under which the holder acts")
    .addOption(
      new Option("--role <role>", "what the holder may do").choices([...CLIENT_ROLES]).default("agent"),
    )
    .option("--expires <time>", "how long they are valid: 8h, 30d, or never", EXPIRES_DEFAULT)
    .option("--out <file>", "write the credentials to a new file that only you can read")
    .action(action(issue));
  withExamples(command, (fleet) => ({
    "An agent on another machine": `${fleet} access issue --agent coder-7 --out coder-7.creds`,
    "A program that uses them": "FLEET_NATS_CREDS=coder-7.creds node agent.js",
    "An operator for a working day": `${fleet} access issue --agent ada --role operator --expires 8h`,
  }));
}

async function issue(session: Session, flags: IssueFlags): Promise<void> {
  const { agent, role, out } = flags;
  const principal = principalOf(session, flags);
  const { tenant } = principal;
  const now = new Date(session.context.now());
  const expiresAt = expiryOf(flags.expires, now);
  const { issueGrant } = await import("../../../../shared/bus/access/administration.ts");
  const { grant, credentials } = await issueGrant(await existingFolder(session), {
    role,
    ...principal,
    expiresAt,
    now,
  });
  if (out !== undefined) writeFileSync(out, credentials, { mode: OWNER_ONLY, flag: "wx" });
  await recordActs(session, await existingFolder(session), await runningFleet(session));
  const data = { ...grant, ...(out === undefined ? { credentials } : { file: out }) };
  const until = expiresAt === null ? "without an end" : `until ${expiresAt.toISOString()}`;
  const what = `credentials of ${agent} as ${role} in tenant ${tenant}, ${until}; id ${shortId(grant)}`;
  if (out === undefined) session.notice(what);
  await session.show(data, () => (out === undefined ? credentials.trimEnd() : `Written to ${out}: ${what}`));
}

async function list(session: Session): Promise<void> {
  const { readGrants } = await import("../../../../shared/bus/access/register/grants.ts");
  const now = session.context.now();
  const grants = readGrants(await existingFolder(session)).map((grant) => ({
    ...grant,
    state: stateOf(grant, now),
  }));
  const { renderGrants } = await import("../../rendering/access/grants.ts");
  await session.show({ grants }, () => renderGrants(grants, session.view));
}

async function revoke(session: Session, who: string): Promise<void> {
  const { tenant } = session.settings;
  const isMeant = (grant: RegisteredGrant): boolean =>
    (tenant ?? grant.tenant) === grant.tenant &&
    (grant.name === who || grant.name === principalToken({ kind: "human", name: who }) || isIdOf(grant, who));
  const { revoked, isApplied } = await revokeCredentials(session, isMeant);
  if (revoked.length === 0) {
    throw new UsageError(
      `there are no valid credentials of ${who}`,
      `See \`${session.programName} access list\`.`,
    );
  }
  const { counted } = await import("../../rendering/terminal/text.ts");
  await session.show({ revoked, applied: isApplied }, () =>
    isApplied
      ? `Revoked ${counted(revoked.length, "issue")} of credentials; the server refuses them from now on.`
      : `Revoked ${counted(revoked.length, "issue")} of credentials; the server refuses them at its next start.`,
  );
}

const ID_CHARS = 12;
const shortId = ({ id }: RegisteredGrant): string => id.slice(0, ID_CHARS);

function isIdOf({ id }: RegisteredGrant, text: string): boolean {
  return text.length >= ID_CHARS && id.startsWith(text);
}

function stateOf({ revoked_at, expires_at }: RegisteredGrant, now: number): "valid" | "expired" | "revoked" {
  if (revoked_at !== null) return "revoked";
  return expires_at !== null && Date.parse(expires_at) <= now ? "expired" : "valid";
}
