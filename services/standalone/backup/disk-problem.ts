/** A failure of a disk during a backup or a restore as a problem that an operator can solve: its path, its code and the next step. */
import { exitCodes, StartupError } from "../../../shared/runtime/process/startup.ts";
import { StoreError } from "../../../shared/store/store.ts";

const FULL = "make room on this disk, and repeat the call";
const DENIED = "run the call as the user of the fleet, and see the owner and the mode of the path";
const OTHER_PATH = "a part of the path is no folder: name another path";
const READ_ONLY = "name a path on a disk that can be written";
const USED = "another program uses the path: end it, and repeat the call";
const FAILED = "see the log of the system for errors of this disk, or name a path on another disk";
/** What the library of the store says, without a code. */
const TEXTS: Readonly<Record<string, string>> = {
  "No space left on device": "ENOSPC",
  "Disk quota exceeded": "EDQUOT",
  "Permission denied": "EACCES",
  "Read-only file system": "EROFS",
};
const STEPS: Readonly<Record<string, string>> = {
  ENOSPC: FULL,
  EDQUOT: FULL,
  EACCES: DENIED,
  EPERM: DENIED,
  EROFS: READ_ONLY,
  ENOTDIR: OTHER_PATH,
  EEXIST: OTHER_PATH,
  EISDIR: OTHER_PATH,
  ELOOP: OTHER_PATH,
  ENAMETOOLONG: "name a shorter path",
  ENOENT: "the path was removed, or a link leads to nothing: repair it, and repeat the call",
  EBUSY: USED,
  ETXTBSY: USED,
  EXDEV: "the path is a mount point of its own: name a folder below it",
};
const FULL_CODES = new Set(["ENOSPC", "EDQUOT"]);

/** undefined: the error is not one of a disk or of the store. */
export function diskProblemOf(error: unknown): StartupError | undefined {
  if (error instanceof StoreError) return storeProblem(error);
  const { code, path, dest, syscall } = error as NodeJS.ErrnoException & { readonly dest?: string };
  if (code === undefined || syscall === undefined) return undefined;
  return problemAt(code, { path, to: dest, problem: code, call: syscall }, error);
}

/** The store wraps the error of the disk, perhaps more than once. */
function storeProblem(error: StoreError): StartupError {
  const { problem = causeOf(error), ...details } = error.details;
  const code = codeIn(String(problem)) ?? "";
  const facts = { problem: `${error.message}: ${String(problem)}`, ...details };
  return problemAt(code, facts, error);
}

function causeOf(error: Error): string {
  const { cause } = error;
  return cause instanceof Error
    ? cause.cause instanceof Error
      ? causeOf(cause)
      : cause.message
    : error.name;
}

function codeIn(text: string): string | undefined {
  const found = Object.keys(TEXTS).find((one) => text.includes(one));
  return found === undefined ? Object.keys(STEPS).find((code) => text.startsWith(`${code}:`)) : TEXTS[found];
}

function problemAt(code: string, details: Readonly<Record<string, unknown>>, cause: unknown): StartupError {
  return new StartupError(FULL_CODES.has(code) ? "the disk is full" : "a file or folder cannot be used", {
    exitCode: FULL_CODES.has(code) ? exitCodes.unavailable : exitCodes.cannotCreate,
    details,
    hint: STEPS[code] ?? FAILED,
    cause,
  });
}
