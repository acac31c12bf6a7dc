// `fleet access matrix`: which principal could do what at a time.

import { type Command, Option } from "commander";
import type { RegisteredGrant } from "../../../../shared/bus/access/register/grants.ts";
import { RIGHT_NAMES, RIGHTS, type RightName } from "../../../../shared/protocol/operation-rights.ts";
import { isServiceRole } from "../../../../shared/protocol/roles.ts";
import { parseMoment } from "../../input/moment.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";
import { existingFolder } from "./access-home.ts";

interface MatrixFlags {
  readonly at?: string;
  readonly right?: RightName;
}

/** Said beside each matrix: an empty one must not read as "no one could". */
const NOT_LISTED =
  "Not listed: programs of the fleet's own user, which may do everything, and holders of tokens of identity providers.";

export function addMatrix(group: Command, action: ActionFactory): void {
  const command = group
    .command("matrix")
    .summary("Show which principal could do what, today or on a date.")
    .description(
      `Show the holders of issued credentials that were valid at a time, with their rights by the table in force then, which is recorded from the first start with this command on. The holder of an API key with scopes has what they leave of the rights of its role. ${NOT_LISTED}`,
    )
    .option("--at <time>", "the time, not in the future: 7d, 2026-01-04 or 2026-01-04T10:00Z (default: now)")
    .addOption(new Option("--right <right>", "only those who have this right").choices(RIGHT_NAMES))
    .action(action(matrix));
  withExamples(command, (fleet) => ({
    Today: `${fleet} access matrix`,
    "The principals that could place and release holds a week ago": `${fleet} access matrix --at 7d --right hold`,
    "Every operation of each principal, for an auditor": `${fleet} access matrix --json > access.json`,
  }));
}

async function matrix(session: Session, { at: given, right }: MatrixFlags): Promise<void> {
  const now = session.context.now();
  const at = given === undefined ? new Date(now).toISOString() : parseMoment(given, now);
  if (at === undefined)
    throw new UsageError(
      `--at ${given} is not a time`,
      "Give a time such as 7d, 2026-01-04 or 2026-01-04T10:00Z.",
    );
  // What is valid then is not known: credentials may be revoked, and an upgrade may change the table.
  if (Date.parse(at) > now)
    throw new UsageError(
      `--at ${given} is in the future`,
      "The matrix shows who could do what at a past time, or can now: give an earlier time, or leave out --at.",
    );
  const folder = await existingFolder(session);
  const { isGrantValidAt, readGrants } = await import("../../../../shared/bus/access/register/grants.ts");
  const { rightsAt, rightsRecordedSince } = await import(
    "../../../../shared/bus/access/register/rights-history.ts"
  );
  const table = rightsAt(folder, at);
  if (table === null) {
    const since = rightsRecordedSince(folder);
    throw new UsageError(
      `the rights of ${at} are not recorded`,
      since === null
        ? "They are recorded from the first start of a version that has this command."
        : `They are recorded since ${since}: give --at a time from then on.`,
    );
  }
  const { tenant } = session.settings;
  const { scopedOperations } = await import("../../../../shared/protocol/rest/scoped-operations.ts");
  const authorityOf = (grant: RegisteredGrant) => {
    const ofRole = operationsOf(grant, table.operations);
    const inScope = grant.scopes === null ? null : scopedOperations(grant.scopes);
    const operations = inScope === null ? ofRole : ofRole.filter((name) => inScope.has(name));
    return { rights: RIGHT_NAMES.filter((name) => operations.includes(RIGHTS[name])), operations };
  };
  const principals = readGrants(folder)
    .filter((grant) => isGrantValidAt(grant, at) && (tenant ?? grant.tenant) === grant.tenant)
    .map((grant) => ({ ...principalIn(grant), ...authorityOf(grant) }))
    .filter(({ rights }) => right === undefined || rights.includes(right));
  const shown = {
    at,
    rights_version: table.version,
    rights_since: table.at,
    principals,
    not_listed: NOT_LISTED,
  };
  const { renderMatrix } = await import("../../rendering/access/matrix.ts");
  await session.show(shown, () => renderMatrix(shown, session.view));
}

const principalIn = ({ id, name, role, tenant, issued_at, expires_at, scopes }: RegisteredGrant) => ({
  ...{ id, name, role, tenant, issued_at, expires_at, scopes },
});

/** The services answer for the fleet: they have no rights of clients. */
function operationsOf(
  { role }: RegisteredGrant,
  table: Readonly<Record<string, readonly string[]>>,
): readonly string[] {
  return isServiceRole(role) ? [] : (table[role] ?? []);
}
