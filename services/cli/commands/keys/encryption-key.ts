// `fleet keys encryption-key`: a new key of encryption at rest, in a file. `fleet keys export-key`: one for encrypted exports.

import { resolve } from "node:path";
import type { Command } from "commander";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";

export function addEncryptionKey(group: Command, action: ActionFactory): void {
  const command = group
    .command("encryption-key")
    .requiredOption("--out <file>", "the new file; its folder must exist")
    .summary("Make a key of encryption at rest.")
    .description(
      "Make a random key in a new file that only this user can read, for FLEET_ENCRYPTION_KEY or FLEET_SPOOL_KEY. Keep a copy at another place: without the key, what it encrypts is lost.",
    )
    .action(action(make));
  withExamples(command, (fleet) => ({
    "The first key of a fleet": `${fleet} keys encryption-key --out /etc/fleet/encryption.key`,
    "Its use": `FLEET_ENCRYPTION_KEY=file:/etc/fleet/encryption.key ${fleet} up`,
  }));
}

export function addExportKey(group: Command, action: ActionFactory): void {
  const command = group
    .command("export-key")
    .requiredOption("--out <file>", "the new file of the private key; its folder must exist")
    .summary("Make a key pair for encrypted exports.")
    .description(
      "Make a key pair: the private key in a new file that only this user can read, and the public key as the answer. Exports are encrypted with the public key (--encrypt-with), and only the holder of the file opens them (--decrypt-with).",
    )
    .action(action(makePair));
  withExamples(command, (fleet) => ({
    "By the auditor, once": `${fleet} keys export-key --out auditor.key`,
    "By the fleet": `${fleet} export --all --out tenant.enc --encrypt-with x25519:7Hs0…`,
    "By the auditor": `${fleet} export verify tenant.enc --decrypt-with file:auditor.key`,
  }));
}

async function makePair(session: Session, { out }: { readonly out: string }): Promise<void> {
  const { newExportKeyFile } = await import("../../../../shared/sdk/encryption/key-file.ts");
  const file = resolve(out);
  const pair = made(() => newExportKeyFile(file), file);
  if (pair === null) throw existing(file);
  const { id: key_id, publicKey: public_key } = pair;
  await session.show({ file, key_id, public_key }, () =>
    [
      `The private key is in ${file}. Keep it, and a copy at another place: without it, what is encrypted for it is lost.`,
      "Give this public key to those who export:",
      public_key,
    ].join("\n"),
  );
}

async function make(session: Session, { out }: { readonly out: string }): Promise<void> {
  const { newEncryptionKeyFile } = await import("../../../../shared/sdk/encryption/key-file.ts");
  const file = resolve(out);
  const id = made(() => newEncryptionKeyFile(file), file);
  if (id === null) throw existing(file);
  await session.show({ file, key_id: id }, () =>
    [`Key ${id} is in ${file}.`, "Keep a copy at another place: without it, what it encrypts is lost."].join(
      "\n",
    ),
  );
}

const existing = (file: string): FleetError =>
  new FleetError("CONFLICT", "the file exists, and a key is never written over", {
    details: { file, next: "give the name of a new file" },
  });

function made<T>(make: () => T, file: string): T {
  try {
    return make();
  } catch (cause) {
    const { code: reason } = cause as NodeJS.ErrnoException;
    throw new FleetError("INVALID", "the key file cannot be written", {
      details: { file, reason, next: "make the folder, or choose one that this user can write" },
      cause,
    });
  }
}
