// Files that a command uploads as artifacts.

import type { TaskHandle } from "../../../../shared/sdk/client/task.ts";
import { UsageError } from "../../runtime/usage.ts";

/** Uploads the files, for the next checkpoint of the handle. */
export async function attachFiles(task: TaskHandle, paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    await task.attach(path).catch((error: unknown) => {
      throw fileProblem(error, path);
    });
  }
}

/** An error of the file system as one of the call. */
export function fileProblem(error: unknown, path: string): unknown {
  const { code, syscall } = error as NodeJS.ErrnoException;
  if (typeof code !== "string" || syscall === undefined) return error;
  return new UsageError(`${path} cannot be used: ${code}`, "Give the path of a file that you may use.");
}
