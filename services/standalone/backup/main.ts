/** The program of `fleet backup` and `fleet restore`: prints one JSON document, or the problem, and ends. */
import { resolve } from "node:path";
import { FleetError } from "../../../shared/protocol/errors.ts";
import {
  exitCodes,
  refusedStart,
  StartupError,
  startupProblemOf,
} from "../../../shared/runtime/process/startup.ts";
import { readConfig } from "../../../shared/runtime/settings/config.ts";
import { absoluteStoreUrl, storeFolder } from "../../../shared/service-host/service-settings.ts";
import { openEncryptionOf } from "../../../shared/service-host/store/encryption.ts";
import { openStore } from "../../../shared/store/open.ts";
import { standaloneFields } from "../config.ts";
import { type FleetFolders, makeBackup } from "./backup.ts";
import { diskProblemOf } from "./disk-problem.ts";
import { restoreBackup } from "./restore.ts";
import { supersedeSigned } from "./signed-restore.ts";

const [act = "", argument = "", person = ""] = process.argv.slice(2);
const {
  home: named,
  storeUrl,
  signingKeyFile,
  encryptionKeys,
} = readConfig(
  {
    home: standaloneFields.home,
    storeUrl: standaloneFields.storeUrl,
    signingKeyFile: standaloneFields.signingKeyFile,
    encryptionKeys: standaloneFields.encryptionKeys,
  },
  process.env,
);

try {
  process.stdout.write(`${JSON.stringify(await done())}\n`);
} catch (error) {
  const { text, exitCode } = problemOf(error);
  process.stderr.write(`${text}\n`);
  process.exitCode = exitCode;
}

/** Throws the error again if it is a defect, whose stack is needed. */
function problemOf(error: unknown): { readonly text: string; readonly exitCode: number } {
  const problem = startupProblemOf(error) ?? startupProblemOf(diskProblemOf(error));
  if (problem !== undefined) return problem;
  if (!(error instanceof FleetError)) throw error;
  return startupProblemOf(refusedStart(error)) ?? { text: error.message, exitCode: error.exitCode };
}

function done(): Promise<unknown> {
  switch (act) {
    case "backup":
      return makeBackup(folders(), argument);
    case "restore":
      return restoreBackup({ ...folders(), signingKeyFile, encryptionKeys }, argument, person);
    case "restored":
      return supersede(argument);
    default:
      throw new StartupError("the act is unknown", { exitCode: exitCodes.usage, details: { act } });
  }
}

function folders(): FleetFolders {
  const home = resolve(named);
  const url = absoluteStoreUrl(storeUrl ?? `lmdb:${home}/store`);
  const store = storeFolder(url);
  if (store !== undefined) return { home, store };
  throw new StartupError("only a store in LMDB has backups of this kind", {
    exitCode: exitCodes.config,
    details: { store: url },
    hint: "for FoundationDB use fdbbackup and fdbrestore, then `fleet restore --restored-at TIME`",
  });
}

/** Another tool has restored the store. */
async function supersede(backupAt: string): Promise<unknown> {
  if (storeUrl === undefined)
    throw new StartupError("the restored store is not named", {
      exitCode: exitCodes.config,
      hint: "set FLEET_STORE, such as fdb:/etc/foundationdb/fdb.cluster",
    });
  const engine = await openStore(absoluteStoreUrl(storeUrl));
  try {
    const { store } = await openEncryptionOf(engine, storeUrl, encryptionKeys);
    const restored = await supersedeSigned(store, { backupAt, person }, { home: undefined, signingKeyFile });
    return { ...restored, backup_at: backupAt, fleet: null };
  } finally {
    await engine.close({ drainMs: 5_000 });
  }
}
