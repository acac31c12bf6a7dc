// Credentials without restrictions, for the parts of a test that look behind the fleet or play an attacker on an open bus.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createUser, encodeUser, fmtCreds, fromSeed } from "@nats-io/jwt";
import { type Authenticator, credsAuthenticator } from "@nats-io/transport-node";
import { ACCESS_FOLDER } from "../../shared/bus/access/local-credentials.ts";
import type { Bus } from "../../shared/bus/bus.ts";
import { connectBus } from "../../shared/bus/connection.ts";
import { createLogger } from "../../shared/runtime/observability/log.ts";

/** Signed by the account itself, so no role restricts them. `home`: the home of a fleet that has made its keys. */
export async function administratorCredentials(home: string): Promise<string> {
  const account = fromSeed(readFileSync(join(home, ACCESS_FOLDER, "account.nk")));
  const user = createUser();
  return Buffer.from(fmtCreds(await encodeUser("administrator", user, account), user)).toString();
}

export async function administratorAuthenticator(home: string): Promise<Authenticator> {
  return credsAuthenticator(Buffer.from(await administratorCredentials(home)));
}

/** A bus without restrictions at a fleet with credentials. */
export async function administratorBus(
  { url, home }: { readonly url: string; readonly home: string },
  identity = "test",
): Promise<Bus> {
  const log = createLogger({ service: "test", level: "silent" });
  const credentials = { creds: await administratorCredentials(home) };
  return connectBus({ url, name: "test", identity, log, credentials });
}
