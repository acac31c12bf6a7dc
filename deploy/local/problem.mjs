// A failure that the user can repair: its message names the next step, and is printed without a stack.

const UNAVAILABLE = 69; // EX_UNAVAILABLE of sysexits.h
const CANNOT_CREATE = 73; // EX_CANTCREAT: the project folder cannot be written

export class Problem extends Error {
  exitCode = UNAVAILABLE;
}

/** The error lines of a failed command's output, otherwise its last lines, indented for a problem's message. */
export function reasonIn(output) {
  const lines = output.trimEnd().split("\n");
  const errors = lines.filter((line) => /^(E: |npm (error|ERR!) (?!A complete log))/.test(line)).slice(0, 5);
  return (errors.length > 0 ? errors : lines.slice(-5)).map((line) => `\n    ${line}`).join("");
}

const FOLDER_ADVICE = {
  ENOSPC: "free some space",
  EDQUOT: "free some space of your quota",
  EROFS: "copy the project to a file system that can be written",
  EACCES: "check the owner of the folder",
  EPERM: "check the owner of the folder, and that its file system has symbolic links",
  ENOTDIR: "remove the file that is in the place of a folder",
  EEXIST: "remove the file that is in the place of a folder",
};

/** An error of the file system as a problem; any other error unchanged. */
export function problemOf(error) {
  if (error instanceof Problem || !error?.syscall || !(error.code in FOLDER_ADVICE)) return error;
  const place = error.dest ?? error.path;
  const problem = new Problem(
    `${place ?? "a file of the project"} cannot be written (${error.code}); ${FOLDER_ADVICE[error.code]}, then run this again`,
  );
  problem.exitCode = CANNOT_CREATE;
  return problem;
}
