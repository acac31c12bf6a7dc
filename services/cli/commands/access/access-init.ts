// `fleet access init`: the files with which the services of a fleet run as separate processes.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";

const SERVER_CONFIG = new URL("../../../../deploy/nats/nats.conf", import.meta.url);

interface Flags {
  readonly signer?: boolean;
  readonly streams?: string;
}

/** `homeOf`: the folder of the fleet. */
export function addInit(
  group: Command,
  action: ActionFactory,
  homeOf: (session: Session) => Promise<string>,
): void {
  const init = async (session: Session, dir: string, flags: Flags): Promise<void> => {
    const { ACCESS_FOLDER } = await import("../../../../shared/bus/access/local-credentials.ts");
    const { writeClusterFiles } = await import("../../../../shared/bus/access/cluster.ts");
    const keys = join(await homeOf(session), ACCESS_FOLDER);
    requireStreams(flags.streams);
    const files = await writeClusterFiles({
      keys,
      dir,
      serverConfig: readFileSync(SERVER_CONFIG, "utf8"),
      signer: flags.signer === true,
      now: new Date(session.context.now()),
    });
    const adopted = flags.streams === undefined ? undefined : await adopt(flags.streams, keys);
    await session.show({ files, ...(adopted !== undefined && { adopted }) }, () =>
      [
        "Written, for you alone to read:",
        ...files,
        ...(adopted === undefined ? [] : [adoptedText(adopted)]),
      ].join("\n"),
    );
  };
  const command = group
    .command("init")
    .argument("<dir>", "the folder for the files")
    .option(
      "--signer",
      "also write the files of a signing service, for tokens of an issuer and for the agents of runners",
    )
    .option(
      "--streams <dir>",
      "the store_dir of a stopped nats-server that ran without credentials: its streams then belong to the fleet",
    )
    .summary("Write what services need to run as separate processes.")
    .description(
      "Make the keys of a fleet, and write the configuration of its nats-server and one credentials file for each service. Existing credentials files are kept. A server keeps the streams of each account apart: after a time without credentials, stop it and name its folder with --streams, or its messages stay behind.",
    )
    .action(action(init));
  withExamples(command, (fleet) => ({
    "The files of a cluster": `${fleet} access init cluster`,
    "A cluster that also accepts tokens of an issuer": `${fleet} access init --signer cluster`,
    "The streams of a bus that ran without credentials": `${fleet} access init cluster --streams .fleet/nats`,
    "Its bus": "nats-server -c cluster/nats.conf",
    "A writer": "FLEET_NATS_CREDS=cluster/writer.creds node services/writer/main.ts",
  }));
}

/** Checked before anything is written. */
function requireStreams(storeDir: string | undefined): void {
  if (storeDir === undefined || existsSync(join(storeDir, "jetstream"))) return;
  throw new UsageError(
    `--streams: there is no folder "jetstream" in ${storeDir}`,
    "Name the store_dir of the nats-server, as its configuration does.",
  );
}

async function adopt(storeDir: string, keys: string): Promise<{ readonly from: string | null }> {
  const { adoptStreams } = await import("../../../../shared/bus/access/stream-accounts.ts");
  const { openKeys } = await import("../../../../shared/bus/access/keys.ts");
  return { from: adoptStreams(storeDir, openKeys(keys).account.getPublicKey()) ?? null };
}

const adoptedText = ({ from }: { readonly from: string | null }): string =>
  from === null
    ? "No other account has streams there."
    : `The streams of the account ${from} now belong to the fleet. Start the server with the new nats.conf.`;
