// `fleet keys encryption-key`: a new key of encryption at rest, in a file.

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

async function make(session: Session, { out }: { readonly out: string }): Promise<void> {
  const { newEncryptionKeyFile } = await import("../../../../shared/sdk/encryption/key-file.ts");
  const file = resolve(out);
  const id = made(() => newEncryptionKeyFile(file), file);
  if (id === null)
    throw new FleetError("CONFLICT", "the file exists, and a key is never written over", {
      details: { file, next: "give the name of a new file" },
    });
  await session.show({ file, key_id: id }, () =>
    [`Key ${id} is in ${file}.`, "Keep a copy at another place: without it, what it encrypts is lost."].join(
      "\n",
    ),
  );
}

function made(make: () => string | null, file: string): string | null {
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
