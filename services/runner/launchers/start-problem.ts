/** The reason why the system started no process, in words for operators: it is quoted in reports and alerts. */
export function startProblem(error: NodeJS.ErrnoException, [program = ""]: readonly string[]): string {
  const { code, syscall, message } = error;
  if (syscall?.startsWith("spawn") !== true) return message;
  if (code === "ENOENT") return `the program ${program} was not found`;
  if (code === "EACCES") return `the program ${program} may not be executed`;
  return message;
}
