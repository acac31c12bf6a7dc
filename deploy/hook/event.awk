# Writes an event of an agent's program in the form that the helper reads: lines of `name=value`, an empty line, and the payload without
# the values of variables that are named like secrets, and without the passwords of addresses in variables. Ends with 1 if hook.mjs has to decide.

function escaped(text,  out, n, char) {
  if (text !~ /[\\"\001-\037]/) return text
  for (n = 1; n <= length(text); n++) {
    char = substr(text, n, 1)
    if (char == "\\" || char == "\"") char = "\\" char
    else if (char == "\n") char = "\\n"
    else if (char == "\r") char = "\\r"
    else if (char == "\t") char = "\\t"
    else if (char ~ /[\001-\037]/) exit 1
    out = out char
  }
  return out
}

# A number or a path, which a text without them would not explain.
function plain(value) {
  return (length(value) <= 11 && value ~ /^[0-9]+$/) || value ~ /^(~|\.\.?)\//
}

# The longest first: a shorter one may be its begin.
function add(secret,  at) {
  for (at = ++count; at > 1 && length(secrets[at - 1]) < length(secret); at--) secrets[at] = secrets[at - 1]
  secrets[at] = secret
}

# As in hook.mjs.
function word(value) {
  return length(value) <= 20 && value ~ /^([A-Za-z]?[a-z]+([-_. ][a-z]+)*|[A-Z]+(_[A-Z]+)*)$/
}

function addPassword(value) {
  if (length(value) >= 8 && !plain(value) && !word(value)) add(escaped(value))
}

# A code that stands for no ASCII character is left to hook.mjs.
function decoded(text,  out, at) {
  while ((at = index(text, "%")) > 0) {
    if (substr(text, at + 1, 2) !~ /^[2-7][0-9A-Fa-f]$/) exit 1
    out = out substr(text, 1, at - 1) sprintf("%c", 16 * digit(substr(text, at + 1, 1)) + digit(substr(text, at + 2, 1)))
    text = substr(text, at + 3)
  }
  return out text
}

function digit(char) {
  return index("0123456789ABCDEF", toupper(char)) - 1
}

function addSpellings(written) {
  addPassword(written)
  if (index(written, "%") > 0) addPassword(decoded(written))
}

# The passwords of addresses, such as that of a database, as they stand there and decoded. As in hook.mjs.
function addPasswords(rest,  at, found, left) {
  while ((at = index(rest, "://")) > 0) {
    rest = substr(rest, at + 3)
    if (!match(rest, "^[^ \t\r\n/:]*:[^ \t\r\n/@]*@")) continue
    found = substr(rest, 1, RLENGTH - 1)
    rest = substr(rest, RLENGTH + 1)
    sub("^[^:]*:", "", found)
    addSpellings(found)
    for (left = 15; left > 0 && match(rest, "^[^ \t\r\n/?#@]*@"); left--) {
      found = found "@" substr(rest, 1, RLENGTH - 1)
      rest = substr(rest, RLENGTH + 1)
      addSpellings(found)
    }
  }
}

# As in hook.mjs.
function ofBus(name) {
  return name ~ /^FLEET_(HOME|URL|NATS_(CREDS|TOKEN_FILE|CA|CERT|KEY))$/
}

BEGIN {
  print "vendor=" ENVIRON["VENDOR"]
  print "event=" ENVIRON["EVENT"]
  print "wait=" ENVIRON["WAIT"]
  print "answer=file"
  print "cwd=" ENVIRON["CWD"]
  installed = ENVIRON["INSTALLED"]
  if (installed != "" && installed !~ /[\n\r]/) print "FLEET_HOME=" installed
  # To ask for a variable that is not set would make one.
  names = ","
  if ("FLEET_SECRET_NAMES" in ENVIRON) names = "," ENVIRON["FLEET_SECRET_NAMES"] ","
  gsub(/[ \t]/, "", names)
  for (name in ENVIRON) {
    value = ENVIRON[name] ""
    if (name ~ /^FLEET_/ && value !~ /[\n\r]/ && !(installed != "" && ofBus(name))) print name "=" value
    if ((index(names, "," name ",") > 0 || toupper(name) ~ /KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|(^|_)(PASS|COOKIES?|CREDS?|SEED|DSN|PAT)(_|$)/) && length(value) >= 8 && !plain(value)) add(escaped(value))
    if (index(value, "://") > 0) addPasswords(value)
  }
  print ""
}

{
  line = $0
  # Other forms of the same characters, in which no secret would be found. Control characters have no other form.
  if (count > 0 && line ~ /\\u([1-9A-Fa-f]|0[1-9A-Fa-f]|00[2-9A-Fa-f])|\\\//) exit 1
  for (n = 1; n <= count; n++) {
    secret = secrets[n]
    rest = line
    line = ""
    while ((at = index(rest, secret)) > 0) {
      # It may be the path of a file, which is no secret.
      if (substr(secret, 1, 1) == "/") exit 1
      line = line substr(rest, 1, at - 1) "[redacted]"
      rest = substr(rest, at + length(secret))
    }
    line = line rest
  }
  print line
}
