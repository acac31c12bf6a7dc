/**
 * The keys of a signing service, in one file: the signing keys of the client roles, and the keys with which it talks to the
 * server. They are the most powerful secret outside the machine of the fleet's keys: with them, credentials for every client
 * of every tenant can be made. A role whose key is removed from the file cannot be issued.
 */
import { readFileSync, statSync } from "node:fs";
import type { KeyPair } from "@nats-io/jwt";
import { CLIENT_ROLES, type ClientRole } from "../../protocol/roles.ts";
import { exitCodes, StartupError } from "../../runtime/process/startup.ts";
import { NewerFile, requireFormat } from "../../runtime/process/whole-file.ts";
import { keyPairOf } from "./key-pair.ts";
import type { CalloutKeys, FleetKeys } from "./keys.ts";

export interface SignerKeys {
  /** The public name of the fleet's account. */
  readonly account: string;
  /** Signs the answers to the server. */
  readonly signer: KeyPair;
  readonly curve: KeyPair;
  readonly roles: Readonly<Partial<Record<ClientRole, KeyPair>>>;
  /** The signing key of the service's own role, for its part in the fleet's account. undefined: it answers no runner. */
  readonly service: KeyPair | undefined;
}

interface KeysFile {
  readonly account: string;
  readonly signer: string;
  readonly curve: string;
  readonly roles: Readonly<Partial<Record<ClientRole, string>>>;
  readonly service?: string;
}

const OTHERS = 0o077;
const seedOf = (pair: KeyPair): string => Buffer.from(pair.getSeed()).toString();
const pairOf = (seed: string): KeyPair => keyPairOf(Buffer.from(seed));

export function signerKeysText(keys: FleetKeys, callout: CalloutKeys): string {
  const roles = Object.fromEntries(CLIENT_ROLES.map((role) => [role, seedOf(keys.roles[role])]));
  const file: KeysFile = {
    account: keys.account.getPublicKey(),
    signer: seedOf(callout.account),
    curve: seedOf(callout.curve),
    roles,
    service: seedOf(keys.roles.signer),
  };
  return `${JSON.stringify(file, null, 2)}\n`;
}

/** Throws StartupError. */
export function readSignerKeys(path: string): SignerKeys {
  let problem: string;
  try {
    const { mode } = statSync(path);
    if ((mode & OTHERS) === 0) {
      const { account, signer, curve, roles, service } = requireFormat(
        JSON.parse(readFileSync(path, "utf8")) as KeysFile,
        path,
      );
      const pairs = CLIENT_ROLES.map((role) => [role, roles[role]] as const)
        .filter(([, seed]) => seed !== undefined)
        .map(([role, seed]) => [role, pairOf(seed!)]);
      return {
        account,
        signer: pairOf(signer),
        curve: pairOf(curve),
        roles: Object.fromEntries(pairs),
        service: service === undefined ? undefined : pairOf(service),
      };
    }
    problem = `other users can read it (mode ${(mode & 0o777).toString(8)})`;
  } catch (error) {
    if (error instanceof NewerFile) throw error;
    problem = (error as NodeJS.ErrnoException).code ?? "it is damaged";
  }
  throw new StartupError("the keys of the signing service cannot be used", {
    exitCode: exitCodes.config,
    details: { path, problem },
    hint: "run `fleet access init --signer DIR`, set FLEET_SIGNER_KEYS to DIR/signer.keys, and keep its mode 600",
  });
}
