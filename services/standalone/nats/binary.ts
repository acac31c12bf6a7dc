/** The nats-server program of the standalone fleet. The first fleet of an installed package downloads one if the machine has none. */
import { findNatsServer, type NatsServer as NatsBinary } from "../../../deploy/local/nats-binary.mjs";
import { isPackage } from "../../../deploy/local/root.mjs";
import { exitCodes, StartupError } from "../../../shared/runtime/process/startup.ts";

/** @param root the folder of package.json. Throws StartupError without a server that runs on this machine. */
export async function usableNatsServer(
  root: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<NatsBinary> {
  const find = () => findNatsServer({ root, env: { ...env } });
  let found = find();
  // A wrong path in FLEET_NATS_SERVER is for the user to correct; another server would hide the mistake.
  const isNamed = Boolean(env.FLEET_NATS_SERVER);
  if ("problem" in found && isPackage(root) && !isNamed) {
    await download(root);
    found = find();
  }
  if (!("problem" in found)) return found;
  throw failed(
    "no usable nats-server",
    found.problem,
    isNamed ? "correct FLEET_NATS_SERVER, or unset it" : "run: node deploy/local/setup.mjs",
  );
}

async function download(root: string): Promise<void> {
  const { installMissingNats } = await import("../../../deploy/local/installation.mjs");
  try {
    await installMissingNats(root);
  } catch (error) {
    const { message, exitCode } = error as Error & { exitCode?: number };
    if (exitCode === undefined) throw error;
    const lines = message.split("\n").map((line) => line.trim());
    const hint = lines.length > 1 ? lines.pop() : undefined;
    throw failed("no nats-server could be installed", lines.join("; "), hint, exitCode);
  }
}

function failed(
  message: string,
  problem: string,
  hint: string | undefined,
  exitCode: number = exitCodes.unavailable,
): StartupError {
  return new StartupError(message, { exitCode, details: { problem }, ...(hint !== undefined && { hint }) });
}
