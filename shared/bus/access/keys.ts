/**
 * The keys of a fleet: its operator, its two accounts (the fleet's and the server's own) and one signing key for
 * each role. They are seeds of Ed25519 keys in one folder that only the fleet's user can read. A program with a
 * role's key can issue credentials of that role only, because the server takes the permissions from the role.
 */
import { chmodSync, existsSync, mkdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { createAccount, createCurve, createOperator, createUser, type KeyPair } from "@nats-io/jwt";
import { CLIENT_ROLES, ROLES, type Role } from "../../protocol/roles.ts";
import { StartupError } from "../../runtime/process/startup.ts";
import { writeOnce, writeWhole } from "../../runtime/process/whole-file.ts";
import { ACCOUNT_NAME_FILE, hasClientKeys, hasKeys, REGISTER_FILE } from "./access-files.ts";
import { keyPairOf } from "./key-pair.ts";

/** The name of a key's file, without its ending. */
type KeyName = "operator" | "account" | "system" | `role-${Role}` | "signer" | "signer-user" | "signer-curve";

export interface FleetKeys {
  readonly operator: KeyPair;
  readonly account: KeyPair;
  readonly system: KeyPair;
  readonly roles: Readonly<Record<Role, KeyPair>>;
}

/** The keys of the account whose connections the signing service decides about. */
export interface CalloutKeys {
  readonly account: KeyPair;
  /** The user of the signing service. */
  readonly service: KeyPair;
  /** A curve key. The server encrypts the requests, which hold tokens, to it. */
  readonly curve: KeyPair;
}

const FOLDER_MODE = 0o700;
const OTHERS = 0o077;

/** Creates the keys that are missing. Several processes may do it at once: the first one's keys stay. */
export function openKeys(folder: string): FleetKeys {
  mkdirSync(folder, { recursive: true, mode: FOLDER_MODE });
  chmodSync(folder, FOLDER_MODE);
  refuseLostKeys(folder);
  // Before the keys, so that a fleet with keys and without a register has lost it.
  if (!hasKeys(folder)) writeOnce(join(folder, REGISTER_FILE), "");
  const open = (name: KeyName, create: () => KeyPair) => openKey(folder, name, create);
  return {
    operator: open("operator", createOperator),
    account: open("account", createAccount),
    system: open("system", createAccount),
    roles: Object.fromEntries(
      ROLES.map((role) => [role, open(`role-${role}`, createAccount)]),
    ) as unknown as FleetKeys["roles"],
  };
}

/** The keys for a signing service, made when one is wanted. */
export function openCalloutKeys(folder: string): CalloutKeys {
  return {
    account: openKey(folder, "signer", createAccount),
    service: openKey(folder, "signer-user", createUser),
    curve: openKey(folder, "signer-curve", createCurve),
  };
}

function openKey(folder: string, name: KeyName, create: () => KeyPair): KeyPair {
  const path = keyPath(folder, name);
  const existing = readKey(path);
  if (existing !== undefined) return existing;
  writeOnce(path, Buffer.from(create().getSeed()).toString());
  return readKey(path)!;
}

/**
 * Keys are made in order, the roles' last, so a missing key before an existing one was lost. A new one would
 * refuse all issued credentials without a message. Looks at the last first, because another process may be
 * making the keys.
 */
function refuseLostKeys(folder: string): void {
  if (hasClientKeys(folder)) {
    throw new StartupError("the keys in the folder are a copy for clients of a fleet that runs elsewhere", {
      exitCode: 78,
      details: { folder },
      hint: "start that fleet where it runs, such as with docker compose; for a new fleet, set FLEET_HOME to another folder",
    });
  }
  let hasLater = ROLES.some((role) => existsSync(keyPath(folder, `role-${role}`)));
  for (const name of ["system", "account", "operator"] as const) {
    const path = keyPath(folder, name);
    const exists = existsSync(path);
    if (hasLater && !exists) {
      throw new StartupError("a key of the fleet is missing", {
        exitCode: 78,
        details: { path },
        hint: `restore the file; to refuse all issued credentials and make new keys, remove ${folder}`,
      });
    }
    hasLater ||= exists;
  }
}

/** The signing key of a role; undefined if this user cannot read one. */
export function readRoleKey(folder: string, role: Role): KeyPair | undefined {
  return readKey(keyPath(folder, `role-${role}`));
}

/** The public name of the fleet's account; undefined without its key and without its name in {@link copyClientKeys}. */
export function readAccountName(folder: string): string | undefined {
  return readKey(keyPath(folder, "account"))?.getPublicKey() ?? readName(join(folder, ACCOUNT_NAME_FILE));
}

/**
 * Copies what the programs of the fleet's user need in order to make their credentials on another machine: the keys of the roles of
 * clients, and the name of the account. A holder can neither revoke credentials nor act as a service.
 */
export function copyClientKeys(from: string, to: string): void {
  mkdirSync(to, { recursive: true, mode: FOLDER_MODE });
  for (const role of CLIENT_ROLES) {
    const key = readRoleKey(from, role);
    if (key !== undefined) writeWhole(keyPath(to, `role-${role}`), Buffer.from(key.getSeed()));
  }
  const account = readAccountName(from);
  if (account !== undefined) writeWhole(join(to, ACCOUNT_NAME_FILE), `${account}\n`);
}

function readName(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8").trim();
  } catch {
    return undefined;
  }
}

function keyPath(folder: string, name: KeyName): string {
  return join(folder, `${name}.nk`);
}

function readKey(path: string): KeyPair | undefined {
  let seed: Buffer;
  try {
    refuseOthers(path);
    seed = readFileSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "EACCES" || code === "ENOTDIR") return undefined;
    throw error;
  }
  try {
    return keyPairOf(seed);
  } catch (error) {
    throw new StartupError("a key of the fleet is damaged", {
      exitCode: 78,
      details: { path },
      hint: "restore the file; a new key would refuse all credentials that were issued",
      cause: error,
    });
  }
}

function refuseOthers(path: string): void {
  const { mode } = statSync(path);
  if ((mode & OTHERS) === 0) return;
  throw new StartupError("a key of the fleet can be read by other users", {
    exitCode: 78,
    details: { path, mode: (mode & 0o777).toString(8) },
    hint: `run: chmod 600 ${path}`,
  });
}
