#!/usr/bin/env bash
# Hosts with addresses, names, process numbers and OpenSSH servers of their own, beside this machine; they end when stdin closes.
#   usage: ssh_world.sh FOLDER HOSTS      prints "ready", or "skip: REASON" with exit status 77
# Writes into FOLDER:
#   ssh_config   for ssh -F: host0, host1, …; stranger (host0 with an unknown key), refused (host0 with a key it does not let in)
#   world.json   {"head": address of this side, "switch": pid,
#                 "hosts": [{"name", "address", "pid" of its init here, "port" at the switch}]}
#   hostN/sshd.log
# To disconnect a host: nsenter -t SWITCH -n ip link set PORT down. To kill all on it: kill -9 its pid (cut the cable first if no
# peer shall notice). To look from there: nsenter -t PID -n -p -m. The file system is this machine's, except /run and /proc.
# Measured on two busy processors with OpenSSH 9.2:
#   this script      0.7-1.3 s for two hosts, 0.3-0.6 s for each further one, 0.05 s to the end
#   ssh host true    0.13-0.4 s; 255 when refused, with the reason on stderr; a cut cable shows after ConnectTimeout
#   many at once     Debian's MaxStartups 10:30:100 is kept: of 12 logins at once to a host none is refused, of 30 about 8, of 60 about 20
#                    (exit status 255, "kex_exchange_identification"): no more than 10 at once to a host, or try again
#   ssh dies         the process at the other end gets no signal, its stdin ends within 0.01 s; a process that does not read it keeps running
# Nothing outlives this script, not even if it is killed with -9: every host is a process namespace whose init dies with it, and
# network namespaces without names go with their last process, their cables with them.
set -uo pipefail
exec 3>&1 1>&2 # Only "ready" and "skip" go to stdout; no other process may hold it open.
export PATH=$PATH:/usr/sbin:/sbin LC_ALL=C

skip() { echo "skip: $*" >&3; exit 77; }
fail() { echo "error: ssh_world: $*" >&2; exit 1; }

[ $# -eq 2 ] || { echo "usage: ssh_world.sh FOLDER HOSTS" >&2; exit 2; }
[[ $2 =~ ^[0-9]{1,3}$ ]] && [ "$2" -ge 1 ] && [ "$2" -le 200 ] || { echo "usage: HOSTS is 1 to 200" >&2; exit 2; }
hosts=$2
[ "$(id -u)" -eq 0 ] || skip "namespaces with an sshd need root"
for program in ip sshd ssh ssh-keygen unshare setpriv nsenter; do
  command -v $program >/dev/null || skip "$program is not installed"
done
mkdir -p "$1" && folder=$(cd "$1" && pwd -P) || fail "$1 cannot be made"
[[ $folder != *[[:space:]\"\\%]* ]] || fail "$folder: no blanks, quotes, backslashes or % here, ssh_config takes them apart"
[[ $folder/ != /run/* ]] || fail "$folder: the hosts have a /run of their own"

# The children of this script, and theirs, the inits (killed first: then their parents see them off, and no zombie is left).
children=() inits=() cable=
kill_if_child_of() { ! grep -q "^PPid:[[:space:]]*$1\$" "/proc/$2/status" || kill -9 "$2"; }
clean_up() {
  trap '' INT TERM HUP
  local i
  for i in "${!children[@]}"; do
    if [ -n "${inits[i]:-}" ]; then kill_if_child_of "${children[i]}" "${inits[i]}"; else kill_if_child_of $$ "${children[i]}"; fi
  done
  [ -z "$cable" ] || ip link del "$cable"
  wait
} 2>/dev/null
trap clean_up EXIT
trap 'exit 143' INT TERM HUP

# in_new_namespaces NAME COMMAND...: as init of namespaces; $folder/NAME/pid is its process number as seen from here.
in_new_namespaces() {
  local name=$1
  shift
  mkdir -p "$folder/$name" && rm -f "$folder/$name/pid" || return
  setpriv --pdeathsig KILL unshare --fork --kill-child --pid --net --mount --uts \
    bash -c 'read -r pid _ </proc/self/stat && mount -t proc proc /proc && mount -t tmpfs -o mode=0755 tmpfs /run &&
             hostname "$1" && ip link set lo up && mkdir /run/sshd && echo "$pid" >"$0/new" && mv "$0/new" "$0/pid" && shift && exec "$@"' \
    "$folder/$name" "$name" "$@" </dev/null >"$folder/$name/sshd.log" 2>&1 3>&- &
  children+=($!)
  local tries=0
  until [ -s "$folder/$name/pid" ]; do
    kill -0 "${children[-1]}" 2>/dev/null && ((++tries < 500)) || return 1
    sleep 0.02
  done
  inits+=("$(<"$folder/$name/pid")")
}

# A switch, and the cable from it to us. The cable's name also reserves the network: 10.77.N.0/24 is whose "emplace-N" is.
in_new_namespaces switch sleep infinity || skip "no namespaces of our own are allowed here: $(head -n 1 "$folder/switch/sshd.log")"
switch=${inits[0]}
for ((i = 0; i < 250; ++i)); do
  n=$((($$ + i) % 250 + 1))
  [ -z "$(ip -4 route show root 10.77.$n.0/24 2>/dev/null)" ] || continue
  why=$(ip link add "emplace-$n" type veth peer name head netns "$switch" 2>&1) && { cable=emplace-$n && break; }
  [[ $why == *exists* ]] || skip "no veth can be made: $why"
done
[ -n "$cable" ] || fail "all of 10.77.N.0/24 are taken"
at_switch() { nsenter -t "$switch" -n "$@"; }
why=$(at_switch ip link add bridge type bridge 2>&1) || skip "no bridge can be made: $why"
at_switch ip link set bridge up && at_switch ip link set head master bridge up || fail "the bridge cannot be brought up"
ip addr add "10.77.$n.1/24" dev "$cable" && ip link set "$cable" up || fail "$cable cannot be brought up"

# Keys: one that the hosts let in, one that they do not.
rm -f "$folder"/id "$folder"/id_refused "$folder"/id.pub "$folder"/id_refused.pub "$folder/known_hosts"
ssh-keygen -q -t ed25519 -N '' -C let_in -f "$folder/id" && ssh-keygen -q -t ed25519 -N '' -C refused -f "$folder/id_refused" &&
  cp "$folder/id.pub" "$folder/authorized_keys" && chmod 600 "$folder/authorized_keys" || fail "no keys can be made"

# Without PAM sshd refuses accounts whose password is locked with "!"; the hosts then see a shadow file of their own.
shadow=true
if [[ $(getent shadow root) == 'root:!'* ]]; then
  (umask 077 && sed 's/^root:!/root:*/' /etc/shadow >"$folder/shadow")
  shadow="mount --bind $folder/shadow /etc/shadow"
fi

client=() rows=()
for ((h = 0; h < hosts; ++h)); do
  name=host$h address=10.77.$n.$((10 + h)) own=$folder/host$h
  mkdir -p "$own" && rm -f "$own"/key "$own"/key.pub
  ssh-keygen -q -t ed25519 -N '' -C "$name" -f "$own/key" || fail "no host key for $name"
  # Debian's defaults, but for keys only, and files here: StrictModes would not have them below /tmp.
  cat >"$own/sshd_config" <<END
Port 22
HostKey $own/key
PidFile $own/sshd.pid
AuthorizedKeysFile $folder/authorized_keys
AuthenticationMethods publickey
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
StrictModes no
UsePAM no
UseDNS no
PrintMotd no
AcceptEnv LANG LC_*
Subsystem sftp /usr/lib/openssh/sftp-server
END
  in_new_namespaces "$name" bash -c "$shadow && exec $(command -v sshd) -D -e -f $own/sshd_config" ||
    fail "$name does not start: $(head -n 1 "$own/sshd.log")"
  pid=${inits[-1]}
  ip link add name "port$h" netns "$switch" type veth peer name eth0 netns "$pid" && at_switch ip link set "port$h" master bridge up &&
    nsenter -t "$pid" -n ip addr add "$address/24" dev eth0 && nsenter -t "$pid" -n ip link set eth0 up || fail "no cable to $name"
  read -r type key _ <"$own/key.pub"
  echo "$name,$address $type $key" >>"$folder/known_hosts"
  client+=("Host $name"$'\n'"  HostName $address")
  rows+=("{\"name\": \"$name\", \"address\": \"$address\", \"pid\": $pid, \"port\": \"port$h\"}")
done

{ # The name refused must not match the right key: ssh tries every IdentityFile that matches.
  printf '%s\n' "${client[@]}"
  cat <<END
Host stranger
  HostName 10.77.$n.10
  HostKeyAlias stranger
Host refused
  HostName 10.77.$n.10
  IdentityFile $folder/id_refused
Host * !refused
  IdentityFile $folder/id
Host *
  Port 22
  User $(id -un)
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile $folder/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  UpdateHostKeys no
  BatchMode yes
  ConnectTimeout 5
END
} >"$folder/ssh_config"
(IFS=,; echo "{\"head\": \"10.77.$n.1\", \"switch\": $switch, \"hosts\": [${rows[*]}]}") >"$folder/world.json"

for ((h = 0; h < hosts; ++h)); do
  tries=0
  until ssh -F "$folder/ssh_config" "host$h" true </dev/null 2>"$folder/host$h/ssh.log" 3>&-; do
    ((++tries < 100)) || fail "host$h does not answer: $(tail -n 1 "$folder/host$h/ssh.log")"
    sleep 0.05
  done
done
echo ready >&3
while read -r _; do :; done
