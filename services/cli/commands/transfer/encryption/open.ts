// `fleet export open`: the content of an encrypted file, for programs that read plain ones, such as the verifiers in a bundle.

import { randomBytes } from "node:crypto";
import { rmSync } from "node:fs";
import { type FileHandle, open, rm } from "node:fs/promises";
import type { Command } from "commander";
import type { ReadableFile } from "../../../../../shared/transfer/encryption/encrypted-export.ts";
import { type ActionFactory, withExamples } from "../../../runtime/action.ts";
import type { Session } from "../../../runtime/session.ts";
import { UsageError } from "../../../runtime/usage.ts";
import { decryptOption } from "./key-options.ts";

const COPY_BYTES = 1024 * 1024;

interface OpenFlags {
  readonly decryptWith: readonly string[];
  readonly out: string;
}

export function addExportOpen(group: Command, action: ActionFactory): void {
  const command = group
    .command("open")
    .summary("Decrypt an encrypted file.")
    .description(
      "Write the content of an encrypted file to a new private file. It is there only when all of it was verified: a wrong key, a changed byte and a missing end are refused. A call that is killed (SIGKILL, a power cut) leaves decrypted content beside it, in a file whose name ends with `.part`: remove it. `import` and `export verify` read encrypted exports themselves.",
    )
    .argument("<file>", "the encrypted file")
    .addOption(decryptOption().makeOptionMandatory())
    .requiredOption("-o, --out <file>", "the new file; its folder must exist")
    .action(action(openFile));
  withExamples(command, (fleet) => ({
    "A bundle, for the verifier in it": `${fleet} export open tenant.enc --decrypt-with file:/etc/fleet/export.key --out tenant.tar`,
  }));
}

async function openFile(session: Session, path: string, { decryptWith, out }: OpenFlags): Promise<void> {
  const { readablePath } = await import("../../../../../shared/transfer/encryption/encrypted-export.ts");
  const keys = { sources: decryptWith, env: session.context.env };
  const source = await readablePath(path, keys)
    .open()
    .catch((error: NodeJS.ErrnoException) => {
      if (error.syscall === undefined) throw error;
      throw new UsageError(`${path} cannot be read: ${error.code}`, "Give an encrypted file.");
    });
  try {
    if (!source.isEncrypted) throw new UsageError(`${path} is not encrypted`, "Use it as it is.");
    await writeDraft(session, source, out);
  } finally {
    await source.close();
  }
  const { bytesText } = await import("../../../rendering/terminal/text.ts");
  await session.show(
    { file: path, out, bytes: source.size },
    () => `Opened: ${bytesText(source.size)} in ${out}`,
  );
}

async function writeDraft(session: Session, source: ReadableFile, out: string): Promise<void> {
  const { syncFolderOf } = await import("../../../../../shared/transfer/encryption/encrypted-writer.ts");
  const { placeOnce } = await import("../../../../../shared/transfer/encryption/place-once.ts");
  const draft = `${out}.${randomBytes(6).toString("hex")}.part`;
  const forget = removeOnSignal(draft);
  try {
    const file = await open(draft, "wx", 0o600);
    try {
      await copyTo(session, source, file);
      await file.sync();
    } finally {
      await file.close();
    }
    await placeOnce(draft, out);
  } catch (error) {
    const { code, syscall } = error as NodeJS.ErrnoException;
    if (syscall === undefined) throw error;
    if (code === "EEXIST") throw new UsageError(`${out} exists`, "Name another file.");
    throw new UsageError(
      `${out} cannot be written: ${code}`,
      "Give a file in a folder that you may write to.",
    );
  } finally {
    await rm(draft, { force: true });
    forget();
  }
  await syncFolderOf(out);
}

/** Decrypted content must not outlive an interrupted call, which ends by the same signal as without this. */
function removeOnSignal(draft: string): () => void {
  const listeners = (["SIGINT", "SIGTERM", "SIGHUP"] as const).map((signal) => {
    const listener = () => {
      rmSync(draft, { force: true });
      process.kill(process.pid, signal);
    };
    process.once(signal, listener);
    return () => process.removeListener(signal, listener);
  });
  return () => {
    for (const remove of listeners) remove();
  };
}

async function copyTo(session: Session, source: ReadableFile, file: FileHandle): Promise<void> {
  const { PROGRESS_END } = await import("../../../rendering/terminal/progress.ts");
  try {
    for (let at = 0; at < source.size; at += COPY_BYTES) {
      session.progress(`${PROGRESS_END}Opening: ${Math.floor((at / source.size) * 100)} %`);
      await file.writeFile(await source.read(at, COPY_BYTES));
    }
  } finally {
    session.progress(PROGRESS_END);
  }
}
