// `fleet access init`: the files with which the services of a fleet run as separate processes.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";

const SERVER_CONFIG = new URL("../../../../deploy/nats/nats.conf", import.meta.url);

interface Flags {
  readonly signer?: boolean;
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
    const files = await writeClusterFiles({
      keys: join(await homeOf(session), ACCESS_FOLDER),
      dir,
      serverConfig: readFileSync(SERVER_CONFIG, "utf8"),
      signer: flags.signer === true,
      now: new Date(session.context.now()),
    });
    await session.show({ files }, () => ["Written, for you alone to read:", ...files].join("\n"));
  };
  const command = group
    .command("init")
    .argument("<dir>", "the folder for the files")
    .option("--signer", "also write the files of a signing service, which accepts tokens of an issuer")
    .summary("Write what services need to run as separate processes.")
    .description(
      "Make the keys of a fleet, and write the configuration of its nats-server and one credentials file for each service. Existing credentials files are kept.",
    )
    .action(action(init));
  withExamples(command, (fleet) => ({
    "The files of a cluster": `${fleet} access init cluster`,
    "A cluster that also accepts tokens of an issuer": `${fleet} access init --signer cluster`,
    "Its bus": "nats-server -c cluster/nats.conf",
    "A writer": "FLEET_NATS_CREDS=cluster/writer.creds node services/writer/main.ts",
  }));
}
