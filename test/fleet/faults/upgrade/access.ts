/**
 * The credentials of a round: the files of `fleet access init --signer`, as an administrator makes them, and those of the
 * runner and of the caller of the HTTP API.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { issueGrant } from "../../../../shared/bus/access/administration.ts";
import { openKeys } from "../../../../shared/bus/access/keys.ts";
import { ACCESS_FOLDER } from "../../../../shared/bus/access/local-credentials.ts";
import { createApiKey } from "../../../../shared/bus/api-keys.ts";
import { DEFAULT_TENANT } from "../../../../shared/protocol/ids.ts";
import { administratorCredentials } from "../../../harness/credentials.ts";
import { callCli } from "../../../services/cli/call.ts";

export interface RoundAccess {
  /** The folder with the configuration of the bus, and the credentials of each service as `NAME.creds`. */
  readonly files: string;
  /** The folder of the keys, with which each agent makes its own credentials. */
  readonly keys: string;
  /** The content of a credentials file without restrictions, for the parts that judge the round. */
  readonly administrator: string;
}

/** `runner`: the name of the runner. */
export async function makeAccess(root: string, runner: string): Promise<RoundAccess> {
  const [home, files] = [join(root, "keys"), join(root, "access")];
  const { exit, err } = await callCli(["access", "init", "--signer", files], { env: { FLEET_HOME: home } });
  if (exit !== 0) throw new Error(`fleet access init ended with ${exit}: ${err}`);
  const keys = join(home, ACCESS_FOLDER);
  const grant = { role: "runner", tenant: DEFAULT_TENANT, name: `runner-${runner}`, ...unlimited() } as const;
  writeFileSync(join(files, "runner.creds"), (await issueGrant(keys, grant)).credentials, { mode: 0o600 });
  writeFileSync(join(files, "signer.json"), JSON.stringify({ issuers: [] }));
  return { files, keys, administrator: await administratorCredentials(home) };
}

/** A key of one agent for a gateway with this folder of API keys. */
export async function makeApiKey(folder: string, agent: string, { keys }: RoundAccess): Promise<string> {
  mkdirSync(folder, { recursive: true });
  const holder = { tenant: DEFAULT_TENANT, name: agent, role: "agent", ...unlimited() } as const;
  const { grant, credentials } = await issueGrant(keys, holder);
  const account = openKeys(keys).account.getPublicKey();
  return createApiKey(folder, { ...holder, scopes: null, grant: grant.id, account, credentials }).key;
}

const unlimited = () => ({ expiresAt: null, now: new Date() });
