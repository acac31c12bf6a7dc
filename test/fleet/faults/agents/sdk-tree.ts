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

/** `tree`: its folder. Default: this tree. */
export async function loadSdk(tree = projectRoot): Promise<SdkOfTree> {
  const load = <T>(path: string): Promise<T> =>
    import(pathToFileURL(join(tree, "shared", path)).href) as Promise<T>;
  const { connectBus } = await load<Connection>("bus/connection.ts");
  const { connectClient } = await load<Connect>("sdk/client/connect.ts");
  const { spoolName } = await load<SpoolList>("sdk/spool/spool-list.ts");
  const { runAgent } = await load<Sdk>("sdk/sdk.ts");
  const { classOfError } = await load<Failure>("sdk/agent/failure.ts");
  return { connectBus, connectClient, spoolName, runAgent, classOfError };
}
