/** The SDK of a tree: that of this one, or of the previous release, whose agents work with this fleet. */
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { projectRoot } from "../../../harness/project-root.ts";

type Connection = typeof import("../../../../shared/bus/connection.ts");
type Connect = typeof import("../../../../shared/sdk/client/connect.ts");
type SpoolList = typeof import("../../../../shared/sdk/spool/spool-list.ts");
type Sdk = typeof import("../../../../shared/sdk/sdk.ts");
type Failure = typeof import("../../../../shared/sdk/agent/failure.ts");

export interface SdkOfTree
  extends Pick<Connection, "connectBus">,
    Pick<Connect, "connectClient">,
    Pick<SpoolList, "spoolName">,
    Pick<Sdk, "runAgent">,
    Pick<Failure, "classOfError"> {}

/** Loads a module of a tree. `path`: relative to its folder. */
export const loadFrom = <T>(tree: string, path: string): Promise<T> =>
  import(pathToFileURL(join(tree, path)).href) as Promise<T>;

/** `tree`: its folder. Default: this tree. */
export async function loadSdk(tree = projectRoot): Promise<SdkOfTree> {
  const { connectBus } = await loadFrom<Connection>(tree, "shared/bus/connection.ts");
  const { connectClient } = await loadFrom<Connect>(tree, "shared/sdk/client/connect.ts");
  const { spoolName } = await loadFrom<SpoolList>(tree, "shared/sdk/spool/spool-list.ts");
  const { runAgent } = await loadFrom<Sdk>(tree, "shared/sdk/sdk.ts");
  const { classOfError } = await loadFrom<Failure>(tree, "shared/sdk/agent/failure.ts");
  return { connectBus, connectClient, spoolName, runAgent, classOfError };
}
