/**
 * The server keeps the streams of each account in a folder of its own. With credentials the fleet's streams belong
 * to its account, and without them to the server's default account. When FLEET_AUTH changes, or a fleet gets its
 * first keys, the folder is renamed while the server is stopped, so that no queued command is left behind.
 */
import { existsSync, readdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { StartupError } from "../../runtime/process/startup.ts";

const DEFAULT_ACCOUNT = "$G";
/** The public name of an account key. */
const ACCOUNT = /^A[A-Z2-7]{55}$/;

/**
 * `account`: that of the fleet; undefined: the default account of the server. Returns the account that had the streams, or
 * undefined if no other one has any. Throws StartupError if several have streams.
 */
export function adoptStreams(storeDir: string, account = DEFAULT_ACCOUNT): string | undefined {
  const folder = join(storeDir, "jetstream");
  if (!existsSync(folder)) return undefined;
  const others = readdirSync(folder).filter(
    (name) =>
      name !== account && (name === DEFAULT_ACCOUNT || ACCOUNT.test(name)) && hasStreams(folder, name),
  );
  const [first] = others;
  if (first === undefined) return undefined;
  if (others.length > 1 || hasStreams(folder, account)) {
    throw new StartupError("the streams of several accounts are in one folder", {
      exitCode: 78,
      details: { folder, accounts: [account, ...others] },
      hint: "keep the folder of the account whose messages are wanted, and move the others away",
    });
  }
  // The server derives their keys from the name of the account, and would leave them out under another one.
  if (hasKeys(join(folder, first, "streams")))
    throw new StartupError("the encrypted streams belong to another account", {
      exitCode: 78,
      details: { folder, account, streams_of: first },
      hint: "start the fleet with the FLEET_AUTH and the keys that it had; an encrypted stream stays with its account",
    });
  if (existsSync(join(folder, account))) renameSync(join(folder, account), join(folder, `${account}.empty`));
  renameSync(join(folder, first), join(folder, account));
  return first;
}

const hasKeys = (streams: string): boolean =>
  readdirSync(streams).some((name) => existsSync(join(streams, name, "meta.key")));

function hasStreams(folder: string, account: string): boolean {
  const streams = join(folder, account, "streams");
  return existsSync(streams) && readdirSync(streams).length > 0;
}
