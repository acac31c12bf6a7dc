// `fleet export --bundle --encrypt-with`: the bundle is put together and verified in a file without a name, because its parts refer to each other, and then encrypted
// into its place. A kill leaves no plain file; its bytes may stay on the medium until it writes over them.

import { randomBytes } from "node:crypto";
import { type FileHandle, open, rm } from "node:fs/promises";
import type { NamedKeys } from "../../../../../shared/transfer/encryption/encrypted-export.ts";
import { EncryptedWriter } from "../../../../../shared/transfer/encryption/encrypted-writer.ts";
import type { Session } from "../../../runtime/session.ts";
import { UsageError } from "../../../runtime/usage.ts";
import { judgeBundle, showReport, unwritableBundle } from "../bundle/bundle-check.ts";
import { nameTaken } from "../export-file.ts";

const COPY_BYTES = 1024 * 1024;

interface EncryptedBundleParts {
  readonly keys: NamedKeys;
  readonly kept: string | null;
  readonly write: (file: FileHandle) => Promise<void>;
}

export async function exportEncryptedBundle(
  session: Session,
  path: string,
  { keys, kept, write }: EncryptedBundleParts,
): Promise<void> {
  if (process.platform === "win32")
    throw new UsageError(
      "on Windows a bundle cannot be encrypted while it is made",
      "Write the export with --out and --encrypt-with, or encrypt the bundle with another program.",
    );
  // Wrong keys are found before the work.
  const writer = await EncryptedWriter.create(path, keys).catch((error: NodeJS.ErrnoException) => {
    throw error.syscall === undefined ? error : unwritableBundle(path, error);
  });
  let isWhole = false;
  try {
    const report = await withNamelessFile(path, async (file) => {
      await write(file);
      const judged = judgeBundle(`/dev/fd/${file.fd}`, { keys: null, kept });
      await copy(session, file, writer);
      return judged;
    });
    isWhole = true;
    await writer.finish().catch((error: NodeJS.ErrnoException) => {
      throw error.code === "EEXIST" ? nameTaken(path) : error;
    });
    await showReport(session, path, report);
  } finally {
    if (!isWhole) await writer.discard();
  }
}

async function withNamelessFile<T>(path: string, work: (file: FileHandle) => Promise<T>): Promise<T> {
  const name = `${path}.${randomBytes(6).toString("hex")}.part`;
  const file = await open(name, "wx+", 0o600);
  try {
    await rm(name);
    return await work(file);
  } finally {
    await file.close();
  }
}

async function copy(session: Session, file: FileHandle, writer: EncryptedWriter): Promise<void> {
  const { PROGRESS_END } = await import("../../../rendering/terminal/progress.ts");
  const { size } = await file.stat();
  const buffer = Buffer.alloc(COPY_BYTES);
  try {
    for (let at = 0; at < size; ) {
      session.progress(`${PROGRESS_END}Encrypting the bundle: ${Math.floor((at / size) * 100)} %`);
      const { bytesRead } = await file.read(buffer, 0, buffer.length, at);
      await writer.write(buffer.subarray(0, bytesRead));
      at += bytesRead;
    }
  } finally {
    session.progress(PROGRESS_END);
  }
}
