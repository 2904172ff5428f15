"""`mooring rights`: print the ClusterRole for users of explain, simulate, audit, lint, dump and dashboard."""

import click


@click.command()
@click.option("--user", default="", metavar="NAME", help="Also bind the role to this user.")
@click.option("--group", default="", metavar="NAME", help="Also bind the role to this group.")
@click.option(
    "--serviceaccount", default="", metavar="NAMESPACE:NAME", help="Also bind the role to this service account."
)
def rights(*, user: str, group: str, serviceaccount: str) -> None:
    """Print the ClusterRole mooring-reader, with read access to what advice needs: no Secrets and no ConfigMaps.

    \b
    Examples:
      mooring rights | kubectl apply -f -
      mooring rights --user jane | kubectl apply -f -
      mooring rights --serviceaccount tools:mooring | kubectl apply -f -
    """
    import yaml

    from mooring.advisor.snapshot.rights import reader_binding, reader_role

    made = [reader_role()]
    made += [reader_binding("User", user)] if user else []
    made += [reader_binding("Group", group)] if group else []
    if serviceaccount:
        namespace, colon, name = serviceaccount.partition(":")
        if not (namespace and colon and name):
            raise click.UsageError(f"--serviceaccount: write NAMESPACE:NAME, not {serviceaccount}")
        made.append(reader_binding("ServiceAccount", name, namespace))
    click.echo(yaml.safe_dump_all(made, sort_keys=False), nl=False)
