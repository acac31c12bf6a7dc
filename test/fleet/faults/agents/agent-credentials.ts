/** The credentials that an agent of a round makes for itself, as an administrator would for its name. */
import { issueCredentials } from "../../../../shared/bus/access/claims.ts";
import { openKeys } from "../../../../shared/bus/access/keys.ts";
import { DEFAULT_TENANT } from "../../../../shared/protocol/ids.ts";

/** The content of a credentials file. `keysFolder`: the folder of the fleet's keys. */
export async function ownCredentials(keysFolder: string, agentId: string): Promise<string> {
  const { account, roles } = openKeys(keysFolder);
  const by = { account: account.getPublicKey(), signer: roles.agent };
  return (await issueCredentials({ role: "agent", tenant: DEFAULT_TENANT, name: agentId }, by)).text;
}
