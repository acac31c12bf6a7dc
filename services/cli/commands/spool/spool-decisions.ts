// `fleet spool redirect` and `drop`: what becomes of commands whose fleet was deleted. Only an operator can decide that: another fleet
// does not have their tasks. `fleet spool reopen`: later commands of a task may have been sent before one that was sealed.

import { rm } from "node:fs/promises";
import type { Command } from "commander";
import { ERROR_TABLE } from "../../../../shared/protocol/errors.ts";
import type { SpoolCounts } from "../../../../shared/sdk/sdk.ts";
import type { ListedSpool } from "../../../../shared/sdk/spool/spool-list.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";

interface Parts {
  readonly spoolsOf: (session: Session) => Promise<ListedSpool[]>;
  readonly sendAll: (session: Session, spools: Iterable<ListedSpool>) => Promise<SpoolCounts>;
}

const PREFIX_CHARS = 4;

export function addSpoolDecisions(group: Command, action: ActionFactory, parts: Parts): void {
  const redirectCommand = group
    .command("redirect")
    .argument("<fleet>", "the identity of the fleet that they were for, or its first digits")
    .summary("Send the commands for a deleted fleet to the fleet of this folder.")
    .description(
      "Send the commands that wait for another fleet to the fleet of this folder. Commands on tasks that it does not have become dead letters there (exit 69: some are left, or were set aside).",
    )
    .action(action((session, fleet: string) => redirect(session, fleet, parts)));
  withExamples(redirectCommand, (fleet) => ({
    "After the folder of the fleet was made again": `${fleet} spool redirect 5f0c91d2a7e84b36`,
  }));
  const dropCommand = group
    .command("drop")
    .argument("<fleet>", "the identity of the fleet that they were for, or its first digits")
    .option("--yes", "remove them")
    .description("Remove the commands that wait for a fleet. They are lost.")
    .action(action((session, fleet: string, flags: { yes?: boolean }) => drop(session, fleet, flags, parts)));
  withExamples(dropCommand, (fleet) => ({
    "The commands for a fleet that was deleted": `${fleet} spool drop 5f0c91d2a7e84b36 --yes`,
  }));
}

export function addSpoolReopen(group: Command, action: ActionFactory, parts: Parts): void {
  const command = group
    .command("reopen")
    .summary("Send sealed commands that were set aside, now that their key is named.")
    .description(
      "Send the sealed commands that were set aside because FLEET_SPOOL_KEY did not name their key, of all agents or of --agent. Name the key in it first. Later commands of a task may have been sent meanwhile: these follow them. One that may have been sent over a day ago stays aside (exit 69: some are left).",
    )
    .action(action((session) => reopen(session, parts)));
  withExamples(command, (fleet) => ({
    "After the key was found": `FLEET_SPOOL_KEY=file:/etc/fleet/new.key,file:/etc/fleet/found.key ${fleet} spool reopen`,
  }));
}

async function reopen(session: Session, { spoolsOf, sendAll }: Parts): Promise<void> {
  const { reopenSealed } = await import("../../../../shared/sdk/spool/reopen.ts");
  const { SpoolSeal, spoolKeyField } = await import("../../../../shared/sdk/spool/seal.ts");
  const { readConfig } = await import("../../../../shared/runtime/settings/config.ts");
  const { env } = session.context;
  const seal = SpoolSeal.of(readConfig({ keys: spoolKeyField }, env).keys, env);
  let [reopened, sealed, doubtful] = [0, 0, 0];
  for (const spool of (await spoolsOf(session)).filter(({ reasons }) => reasons.includes("sealed"))) {
    const found = await reopenSealed(spool.path, seal);
    reopened += found.reopened;
    sealed += found.sealed;
    doubtful += found.doubtful;
    if (found.reopened > 0) await sendAll(session, [spool]);
  }
  const remaining = total(await spoolsOf(session));
  if (remaining + sealed + doubtful > 0) session.exitCode = ERROR_TABLE.UNAVAILABLE.exit;
  const { counted } = await import("../../rendering/terminal/text.ts");
  await session.show({ reopened, sealed, doubtful, remaining }, () =>
    [
      `Reopened: ${counted(reopened, "command")}`,
      ...(sealed > 0
        ? [`${counted(sealed, "command")} still sealed: FLEET_SPOOL_KEY does not name their key`]
        : []),
      ...(doubtful > 0
        ? [
            `${counted(doubtful, "command")} kept aside: sent over a day ago perhaps, and again it might be applied twice`,
          ]
        : []),
      ...(remaining > 0
        ? [`${counted(remaining, "command")} left, which \`${session.programName} spool flush\` sends`]
        : []),
    ].join("\n"),
  );
}

async function redirect(session: Session, fleet: string, { spoolsOf, sendAll }: Parts): Promise<void> {
  const spools = await spoolsFor(session, fleet, spoolsOf);
  const client = await session.client();
  // The fleet must answer before the commands are given to it.
  await client.admin.status(session.deadline);
  const { writeNote } = await import("../../../../shared/sdk/spool/places.ts");
  const note = { fleet: client.fleetId ?? null, url: session.url ?? "", home: session.recordedHome };
  const redirected = function* (): Generator<ListedSpool> {
    for (const spool of spools) {
      writeNote({ path: spool.path, note });
      yield { ...spool, note };
    }
  };
  const { sent, aside, damaged } = await sendAll(session, redirected());
  const left = (await spoolsOf(session)).filter(({ path }) => spools.some((one) => one.path === path));
  const remaining = total(left);
  if (remaining + aside + damaged > 0) session.exitCode = ERROR_TABLE.UNAVAILABLE.exit;
  const [{ counted }, { asideTexts }] = await Promise.all([
    import("../../rendering/terminal/text.ts"),
    import("../../rendering/operations/spool.ts"),
  ]);
  const fleetName = session.programName;
  await session.show({ sent, remaining, aside, damaged, fleet: note.fleet }, () =>
    [
      `Sent: ${counted(sent, "command")}`,
      ...(remaining > 0 ? [`${remaining} left, which \`${fleetName} spool flush\` sends`] : []),
      ...asideTexts({ aside, damaged }, fleetName),
    ].join("; "),
  );
}

async function drop(
  session: Session,
  fleet: string,
  { yes }: { yes?: boolean },
  { spoolsOf }: Parts,
): Promise<void> {
  const spools = await spoolsFor(session, fleet, spoolsOf);
  const { counted } = await import("../../rendering/terminal/text.ts");
  const what = counted(total(spools), "command");
  if (yes !== true) {
    throw new UsageError(
      `${what} of ${counted(spools.length, "agent")} would be lost`,
      `See \`${session.programName} spool status\`, then give --yes.`,
    );
  }
  for (const { path } of spools) await rm(path, { recursive: true, force: true });
  await session.show(
    { dropped: total(spools), spools: spools.map(({ path }) => path) },
    () => `Dropped: ${what}`,
  );
}

async function spoolsFor(
  session: Session,
  fleet: string,
  spoolsOf: Parts["spoolsOf"],
): Promise<readonly ListedSpool[]> {
  const all = (await spoolsOf(session)).filter(({ note }) => note !== undefined && note.fleet !== null);
  const found = all.filter(({ note }) => fleet.length >= PREFIX_CHARS && note?.fleet?.startsWith(fleet));
  if (found.length > 0) return found;
  throw new UsageError(
    `no commands wait for a fleet ${JSON.stringify(fleet)}`,
    `\`${session.programName} spool status\` lists the fleets.`,
  );
}

const total = (spools: readonly ListedSpool[]): number =>
  spools.reduce((sum, { commands }) => sum + commands, 0);
